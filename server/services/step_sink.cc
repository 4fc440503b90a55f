#include "server/services/step_sink.h"

#include <chrono>

namespace attention {

void StepSink::Finish(const std::shared_ptr<const AttendReply>& reply, const absl::Status& status,
                      const BatchStats& stats) {
  if (!status.ok() || action_->request.message.step().top_logits() == 0) {
    call_->OnStepDone(action_, *reply, status, stats);
    return;
  }
  reply_ = reply;
  stats_ = stats;
  alarm_.Set(queue_, std::chrono::system_clock::now(), on_search_.Arm());
}

void StepSink::OnSearch(bool) {
  const std::shared_ptr<const AttendReply> reply = std::move(reply_);
  call_->OnStepDone(action_, *reply, absl::OkStatus(), stats_);
}

}  // namespace attention
