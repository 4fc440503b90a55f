// One call at a time over a completion queue, unary or streamed, in raw bytes.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/time/time.h"
#include "client/load/load_generator.h"

namespace attention {

/// Not thread-safe; its address is the tag of its events, so it stays where it is.
class Lane {
 public:
  using Clock = std::chrono::steady_clock;

  /// Borrows `request` and `queue`.
  Lane(std::shared_ptr<grpc::Channel> channel, const LoadRequest& request, absl::Duration timeout,
       grpc::CompletionQueue& queue);
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  /// Begins a call, whose whole answer is kept if `keep_all`. REQUIRES: none is under way.
  void Start(bool keep_all);
  /// Takes one event of the queue; true when the call has ended, after which the rest of this class
  /// tells how.
  bool Advance(bool ok);

  const grpc::Status& status() const { return status_; }
  Clock::time_point started() const { return started_; }
  /// When the first message of a stream came.
  std::optional<Clock::time_point> first_message() const { return first_message_; }
  /// Of all messages of the answer.
  int64_t answered_bytes() const { return answered_bytes_; }
  /// The messages of the answer; of a stream only the last, unless all are kept.
  const LoadAnswer& answer() const { return answer_; }
  bool keeps_all() const { return keep_all_; }

 private:
  enum class Step { kConnect, kSend, kReceive, kFinish };

  void TakeMessage();

  grpc::GenericStub stub_;
  const LoadRequest& request_;
  const absl::Duration timeout_;
  grpc::CompletionQueue& queue_;

  // Of the call under way, or the last one.
  bool keep_all_ = false;
  std::optional<grpc::ClientContext> context_;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> unary_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  Step step_ = Step::kFinish;
  grpc::ByteBuffer message_;
  grpc::Status status_;
  Clock::time_point started_;
  std::optional<Clock::time_point> first_message_;
  int64_t answered_bytes_ = 0;
  LoadAnswer answer_;
};

}  // namespace attention
