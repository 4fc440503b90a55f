// The receiver of the answer to a step of a session.
#pragma once

#include <grpcpp/alarm.h>

#include <functional>
#include <memory>
#include <utility>

#include "server/services/calls/duplex_call.h"
#include "server/services/reply/attend_job.h"

namespace attention {

/// Calls `done` when a step has been computed: on the dispatcher's thread; on a completion thread
/// if a vocabulary must be searched for its largest logits; on a side thread if the answer has many
/// messages.
class StepSink final : public AttendSink, public std::enable_shared_from_this<StepSink> {
 public:
  /// A function that answers the step. The call is alive while it runs. It does not throw.
  using Done =
      std::function<void(const AttendReply&, const absl::Status& status, const BatchStats& stats)>;

  /// `queue` is one of the server's queues, and outlives the call.
  StepSink(std::shared_ptr<DuplexCall> call, grpc::ServerCompletionQueue* queue, bool is_search,
           Done done)
      : call_(std::move(call)), queue_(queue), is_search_(is_search), done_(std::move(done)) {}

  bool is_cancelled() const override { return call_->is_cancelled(); }
  std::function<void()> GiveUp() override { return call_->GiveUp(); }
  void OnRows(const std::shared_ptr<const AttendReply>&, const RowRange&) override {}
  void Finish(const std::shared_ptr<const AttendReply>& reply, const absl::Status& status,
              const BatchStats& stats) override;
  /// Logs the failure. It has no other receiver, since `done` does not throw.
  void OnFailure(const absl::Status& status) noexcept { LogFailure(status); }

 private:
  void OnSearch(bool ok);

  const std::shared_ptr<DuplexCall> call_;
  grpc::ServerCompletionQueue* const queue_;
  const bool is_search_;
  const Done done_;
  std::shared_ptr<const AttendReply> reply_;
  BatchStats stats_;
  /// Fires at once, to move the search away from the dispatcher's thread.
  grpc::Alarm alarm_;
  CallTag<StepSink> on_search_{this, &StepSink::OnSearch};
};

}  // namespace attention
