// What hears of the answer to a step of a session.
#pragma once

#include <grpcpp/alarm.h>

#include <functional>
#include <memory>
#include <utility>

#include "server/services/calls/duplex_call.h"
#include "server/services/reply/attend_job.h"

namespace attention {

/// Tells when a step has been computed: the dispatcher's thread does, or, when a vocabulary is to
/// be searched for its largest logits, a completion thread, or, when the answer has many messages,
/// a side thread.
class StepSink final : public AttendSink, public std::enable_shared_from_this<StepSink> {
 public:
  /// Does not throw. The call lives.
  using Done =
      std::function<void(const AttendReply&, const absl::Status& status, const BatchStats& stats)>;

  /// `queue` is one of the server's, which outlives the call.
  StepSink(std::shared_ptr<DuplexCall> call, grpc::ServerCompletionQueue* queue, bool is_search,
           Done done)
      : call_(std::move(call)), queue_(queue), is_search_(is_search), done_(std::move(done)) {}

  bool is_cancelled() const override { return call_->is_cancelled(); }
  std::function<void()> GiveUp() override { return call_->GiveUp(); }
  void OnRows(const std::shared_ptr<const AttendReply>&, const RowRange&) override {}
  void Finish(const std::shared_ptr<const AttendReply>& reply, const absl::Status& status,
              const BatchStats& stats) override;
  /// `done` does not throw, so there is nothing that it could be told.
  void OnFailure(const absl::Status& status) noexcept { LogFailure(status); }

 private:
  void OnSearch(bool ok);

  const std::shared_ptr<DuplexCall> call_;
  grpc::ServerCompletionQueue* const queue_;
  const bool is_search_;
  const Done done_;
  std::shared_ptr<const AttendReply> reply_;
  BatchStats stats_;
  /// Fires at once: takes the search away from the dispatcher.
  grpc::Alarm alarm_;
  CallTag<StepSink> on_search_{this, &StepSink::OnSearch};
};

}  // namespace attention
