// What hears of the answer to a step of a session.
#pragma once

#include <grpcpp/alarm.h>

#include <functional>
#include <memory>
#include <utility>

#include "server/services/decode/decode_call.h"

namespace attention {

/// Tells the call when its step has been computed: the dispatcher's thread does, or, when a
/// vocabulary is to be searched for its largest logits, a completion thread.
class StepSink final : public AttendSink, public std::enable_shared_from_this<StepSink> {
 public:
  /// `queue` is one of the server's, which outlives the call.
  StepSink(std::shared_ptr<DecodeCall> call, std::shared_ptr<DecodeAction> action,
           grpc::ServerCompletionQueue* queue)
      : call_(std::move(call)), action_(std::move(action)), queue_(queue) {}

  bool is_cancelled() const override { return call_->is_cancelled(); }
  std::function<void()> GiveUp() override { return call_->GiveUp(); }
  void OnRows(const std::shared_ptr<const AttendReply>&, const RowRange&) override {}
  void Finish(const std::shared_ptr<const AttendReply>& reply, const absl::Status& status,
              const BatchStats& stats) override;
  /// OnStepDone does not throw, so there is nothing that it could be told.
  void OnFailure(const absl::Status& status) noexcept { LogFailure(status); }

 private:
  void OnSearch(bool ok);

  const std::shared_ptr<DecodeCall> call_;
  const std::shared_ptr<DecodeAction> action_;
  grpc::ServerCompletionQueue* const queue_;
  std::shared_ptr<const AttendReply> reply_;
  BatchStats stats_;
  /// Fires at once: takes the search away from the dispatcher.
  grpc::Alarm alarm_;
  CallTag<StepSink> on_search_{this, &StepSink::OnSearch};
};

}  // namespace attention
