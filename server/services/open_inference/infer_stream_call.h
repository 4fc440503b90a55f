// ModelStreamInfer: many requests on one call, answered in their order.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/runtime/mutex.h"
#include "server/services/calls/duplex_call.h"
#include "server/services/open_inference/infer_call.h"

namespace attention {

/// A request's error is one message of the stream, or, where the client wants that
/// (`triton_grpc_error: true`), the stream's end.
class InferStreamCall final : public DuplexCall {
 public:
  /// Waits for one call; each call that comes posts its successor.
  static void Post(const InferEnvironment& environment);
  explicit InferStreamCall(const InferEnvironment& environment)
      : DuplexCall(environment.calls, "ModelStreamInfer"), infer_(environment) {}

 private:
  class Request;
  /// What became of a request: its messages, or an error that ends the stream. Without messages
  /// the stream ends, too.
  struct Answer {
    std::vector<grpc::ByteBuffer> messages;
    RequestRecord record;
  };

  void PostNext() override { Post(infer_); }
  int64_t PlanningCost(const grpc::ByteBuffer& message) const override {
    return InferPlanningCost(message, infer_.shared_memory != nullptr);
  }
  void OnMessage(const grpc::ByteBuffer& message, TimePoint arrival) override;
  void OnEnd(bool) override {}

  /// Nobody wants the answers any more.
  bool is_over() const { return is_cancelled() || has_failed_; }
  bool ErrorsEndTheStream() const;
  /// Sends the answers whose turn it is. Any thread; does not block.
  void Put(int64_t number, Answer answer);
  std::optional<Answer> TakeNext();
  void SendOne(Answer answer);

  const InferEnvironment& infer_;
  int64_t num_requests_ = 0;  // of OnMessage's
  std::atomic<bool> has_failed_ = false;

  Mutex mutex_;
  /// Of each request that is not answered yet, by its number; null: not ready.
  std::map<int64_t, std::optional<Answer>> ready_ ABSL_GUARDED_BY(mutex_);
  int64_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  /// Some thread is in Put's loop.
  bool is_sending_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace attention
