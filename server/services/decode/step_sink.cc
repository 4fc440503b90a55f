#include "server/services/decode/step_sink.h"

#include <chrono>

#include "server/services/plan/plan_terms.h"

namespace attention {

void StepSink::Finish(const std::shared_ptr<const AttendReply>& reply, const absl::Status& status,
                      const BatchStats& stats) {
  if (status.ok() && reply->message_bytes() > kSmallReplyBytes) {
    call_->RunOnSideThread(reply->message_bytes(), [self = shared_from_this(), reply, stats] {
      self->done_(*reply, absl::OkStatus(), stats);
    });
    return;
  }
  if (!status.ok() || !is_search_) {
    done_(*reply, status, stats);
    return;
  }
  reply_ = reply;
  stats_ = stats;
  const absl::Status set = ContainVoid("answering the step", [&] {
    on_search_.ArmFor(
        [&](void* tag) { alarm_.Set(queue_, std::chrono::system_clock::now(), tag); });
  });
  if (!set.ok()) {
    OnSearch(true);
  }
}

void StepSink::OnSearch(bool) {
  const std::shared_ptr<const AttendReply> reply = std::move(reply_);
  done_(*reply, absl::OkStatus(), stats_);
}

}  // namespace attention
