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

/// A stream of requests. An error of a request is one message of the stream or, if the client asks
/// for it (`triton_grpc_error: true`), the end of the stream.
class InferStreamCall final : public DuplexCall {
 public:
  /// Waits for one call; each call that arrives posts its successor.
  static void Post(const InferEnvironment& environment);
  explicit InferStreamCall(const InferEnvironment& environment)
      : DuplexCall(environment.calls, "ModelStreamInfer"), infer_(environment) {}

 private:
  class Request;
  /// The answer to a request: its messages, or an error that ends the stream. Without messages the
  /// stream ends, too.
  struct Answer {
    std::vector<grpc::ByteBuffer> messages;
    RequestRecord record;
  };

  void PostNext() override { Post(infer_); }
  int64_t PlanningCost(const grpc::ByteBuffer& message) const override {
    return InferPlanningCost(message, infer_.max_shared_bytes());
  }
  void OnMessage(const grpc::ByteBuffer& message, TimePoint arrival) override;
  bool OnMessageWithoutRoom(const grpc::ByteBuffer& message, TimePoint arrival,
                            const absl::Status& status) override;
  void OnEnd(bool) override {}
  /// Takes a number for the message. Returns null without memory for that; the call then ends.
  std::shared_ptr<Request> MakeRequest(const grpc::ByteBuffer& message, TimePoint arrival);

  /// Returns whether the client no longer waits for answers.
  bool is_over() const { return is_cancelled() || has_failed_; }
  bool ErrorsEndTheStream() const;
  /// Sends the answers that are next in order. Any thread; does not block.
  void Put(int64_t number, Answer answer);
  std::optional<Answer> TakeNext();
  void SendOne(Answer answer);

  const InferEnvironment& infer_;
  int64_t num_requests_ = 0;  // used by MakeRequest only
  std::atomic<bool> has_failed_ = false;

  Mutex mutex_;
  /// The answers to unanswered requests, by their numbers; null: not ready.
  std::map<int64_t, std::optional<Answer>> ready_ ABSL_GUARDED_BY(mutex_);
  int64_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  /// True while a thread is in the loop of Put.
  bool is_sending_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace attention
