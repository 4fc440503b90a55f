// Attend and AttendStream of attention.v1.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "core/runtime/mutex.h"
#include "proto/attention/v1/attention.grpc.pb.h"
#include "server/services/calls/attend_call.h"
#include "server/services/reply/reply_parts.h"

namespace attention {

using AttentionAsyncService = HeadersFirst<v1::AttentionService>;

/// The environment of all calls of one service; outlives them.
struct NativeEnvironment {
  AttentionAsyncService& service;
  CallEnvironment calls;
};

/// The common part of both calls.
class NativeCall : public AttendCall {
 protected:
  NativeCall(const NativeEnvironment& environment, std::string_view rpc, bool wants_rows)
      : AttendCall(environment.calls, rpc, wants_rows), native_(environment) {}

  int64_t PlanningCost(const grpc::ByteBuffer& request) const override;
  absl::StatusOr<AttendPlan> Plan(const grpc::ByteBuffer& request, const PlanTerms& terms) override;

  const NativeEnvironment& native_;
};

/// A call of Attend: one message with the whole answer.
class AttendUnaryCall final : public NativeCall {
 public:
  /// Waits for one call; each call that arrives posts its successor.
  static void Post(const NativeEnvironment& environment);
  explicit AttendUnaryCall(const NativeEnvironment& environment)
      : NativeCall(environment, "Attend", /*wants_rows=*/false) {}

  void OnRows(const std::shared_ptr<const AttendReply>&, const RowRange&) override {}
  void Finish(const std::shared_ptr<const AttendReply>& reply, const absl::Status& status,
              const BatchStats& stats) override;

 private:
  void PostNext() override { Post(native_); }
};

/// Writes one message at a time. Row ranges of the reply's memory wait to be written, so a slow
/// reader costs that memory and no thread.
class AttendStreamCall final : public NativeCall {
 public:
  /// Waits for one call; each call that arrives posts its successor.
  static void Post(const NativeEnvironment& environment);
  explicit AttendStreamCall(const NativeEnvironment& environment)
      : NativeCall(environment, "AttendStream", /*wants_rows=*/true) {}

  void OnRows(const std::shared_ptr<const AttendReply>& reply, const RowRange& rows) override;
  void Finish(const std::shared_ptr<const AttendReply>& reply, const absl::Status& status,
              const BatchStats& stats) override;

 private:
  struct End {
    absl::Status status;
    BatchStats stats;
  };

  void PostNext() override { Post(native_); }
  void OnWritten(bool ok);
  /// Starts the next operation, if there is something to send and no operation is running. Does not
  /// throw.
  void Advance();
  /// Calls `send`; if it throws, the call ends.
  void TryToSend(absl::FunctionRef<void()> send);
  void SendNext();
  void SendPart(const AttendReply& reply, const ReplyPart& part);
  /// Stops the answer after a failure to send it; the end of the call reports it.
  void Fail(const absl::Status& status);
  ReplyPart TakePart() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendEnd();

  CallTag<AttendStreamCall> on_written_{this, &AttendStreamCall::OnWritten};

  Mutex mutex_;
  std::shared_ptr<const AttendReply> reply_ ABSL_GUARDED_BY(mutex_);
  std::deque<RowRange> rows_ ABSL_GUARDED_BY(mutex_);
  TokenRange last_tokens_ ABSL_GUARDED_BY(mutex_);
  ScoreRange last_scores_ ABSL_GUARDED_BY(mutex_);
  std::optional<End> end_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  /// Stays true when the end is being sent.
  bool is_busy_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace attention
