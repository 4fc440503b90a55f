// The two calls of the API that compute: decode > admit > submit > encode > finish exactly once.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/async_unary_call.h>
#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <deque>
#include <memory>
#include <optional>

#include "core/runtime/mutex.h"
#include "proto/attention/v1/attention.grpc.pb.h"
#include "server/scheduling/executor.h"
#include "server/scheduling/gate.h"
#include "server/services/attend_job.h"
#include "server/services/completion_threads.h"

namespace attention {

using TypedAsyncMethods =
    v1::AttentionService::WithAsyncMethod_ListModels<v1::AttentionService::WithAsyncMethod_GetModel<
        v1::AttentionService::WithAsyncMethod_ListModelStates<
            v1::AttentionService::WithAsyncMethod_LoadModel<
                v1::AttentionService::WithAsyncMethod_UnloadModel<
                    v1::AttentionService::WithAsyncMethod_ReloadModels<
                        v1::AttentionService::WithAsyncMethod_VerifyModel<
                            v1::AttentionService::Service>>>>>>>;
/// Tensors bypass protobuf in the raw methods.
using AttentionAsyncService = v1::AttentionService::WithRawMethod_Attend<
    v1::AttentionService::WithRawMethod_AttendStream<TypedAsyncMethods>>;

/// Shared by all calls, outlives them.
struct AttendEnvironment {
  AttentionAsyncService& service;
  grpc::ServerCompletionQueue* queue;
  const ModelRepository& models;
  Executor& executor;
  /// Closed when the server drains; requests being worked on are inside.
  Gate& admission;
  /// Every call object is inside.
  Gate& live_calls;
  ReplyLimit unary_limit;
  ReplyLimit stream_limit;
};

/// What the two have in common: everything up to the answer.
class AttendCall : public AttendSink, public std::enable_shared_from_this<AttendCall> {
 public:
  bool is_cancelled() const override { return is_cancelled_; }

 protected:
  AttendCall(const AttendEnvironment& environment, const ReplyLimit& limit, bool wants_rows);

  /// Waits for another call of the method.
  virtual void PostNext() = 0;
  /// Starts the one operation that ends the call, with on_finish_'s tag.
  virtual void Refuse(const absl::Status& status) = 0;

  void set_cancelled() { is_cancelled_ = true; }
  v1::Summary SummaryOf(const BatchStats& stats) const;

  const AttendEnvironment& environment_;
  const Visit visit_;  // leaves last, when nothing of the call is left
  grpc::ServerContext context_;
  grpc::ByteBuffer request_;
  CallTag<AttendCall> on_request_{this, &AttendCall::OnRequest};
  CallTag<AttendCall> on_done_{this, &AttendCall::OnDone};
  CallTag<AttendCall> on_finish_{this, &AttendCall::OnFinish};

 private:
  void OnRequest(bool ok);
  void OnDone(bool ok);
  void OnFinish(bool ok);
  absl::Status Admit();

  const ReplyLimit& limit_;
  const bool wants_rows_;
  bool is_admitted_ = false;
  TimePoint arrival_;
  std::atomic<bool> is_cancelled_ = false;
};

class AttendUnaryCall final : public AttendCall {
 public:
  /// Waits for one call; each call that comes posts its successor.
  static void Post(const AttendEnvironment& environment);
  explicit AttendUnaryCall(const AttendEnvironment& environment)
      : AttendCall(environment, environment.unary_limit, /*wants_rows=*/false) {}

  void OnRows(const std::shared_ptr<const AttendReply>&, const RowRange&) override {}
  void Finish(const std::shared_ptr<const AttendReply>& reply, const absl::Status& status,
              const BatchStats& stats) override;

 private:
  void PostNext() override { Post(environment_); }
  void Refuse(const absl::Status& status) override;

  grpc::ServerAsyncResponseWriter<grpc::ByteBuffer> writer_{&context_};
};

/// One write at a time; what waits to be written are ranges of the reply's memory, so a reader that
/// is slow costs that memory and no thread.
class AttendStreamCall final : public AttendCall {
 public:
  static void Post(const AttendEnvironment& environment);
  explicit AttendStreamCall(const AttendEnvironment& environment)
      : AttendCall(environment, environment.stream_limit, /*wants_rows=*/true) {}

  void OnRows(const std::shared_ptr<const AttendReply>& reply, const RowRange& rows) override;
  void Finish(const std::shared_ptr<const AttendReply>& reply, const absl::Status& status,
              const BatchStats& stats) override;

 private:
  struct End {
    absl::Status status;
    BatchStats stats;
  };
  /// One message; the end has none of these ranges.
  struct Part {
    std::optional<TokenRange> tokens;
    std::optional<RowRange> rows;
    std::optional<ScoreRange> scores;

    bool empty() const { return !tokens.has_value() && !rows.has_value() && !scores.has_value(); }
  };

  void PostNext() override { Post(environment_); }
  void Refuse(const absl::Status& status) override;
  void OnWritten(bool ok);
  /// Starts the next operation, if there is something to send and none is under way.
  void Advance();
  Part TakePart() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static grpc::ByteBuffer Encode(const AttendReply& reply, const Part& part);
  void SendEnd();

  grpc::ServerAsyncWriter<grpc::ByteBuffer> writer_{&context_};
  CallTag<AttendStreamCall> on_written_{this, &AttendStreamCall::OnWritten};

  Mutex mutex_;
  std::shared_ptr<const AttendReply> reply_ ABSL_GUARDED_BY(mutex_);
  std::deque<RowRange> rows_ ABSL_GUARDED_BY(mutex_);
  TokenRange last_tokens_ ABSL_GUARDED_BY(mutex_);
  ScoreRange last_scores_ ABSL_GUARDED_BY(mutex_);
  std::optional<End> end_ ABSL_GUARDED_BY(mutex_);
  /// True for good once the end is on its way.
  bool is_busy_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace attention
