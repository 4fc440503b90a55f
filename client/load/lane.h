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
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "client/load/load_channels.h"
#include "client/load/load_options.h"
#include "client/load/protocol.h"
#include "client/load/request_mix.h"
#include "core/runtime/mutex.h"

namespace attention {

/// A call to send.
struct LaneCall {
  /// The kind of request in its RequestMix.
  size_t kind = 0;
  grpc::ByteBuffer bytes;  // shared by all calls of a kind
  /// When the request is due; absent: when it is sent.
  std::optional<std::chrono::steady_clock::time_point> due;
  /// Whether all messages of a stream are kept, not only the last.
  bool keep_all = false;
};

/// Sends one call after the other. A lane must not move, since its address is the tag of its
/// events. Not thread-safe, but different threads may handle successive events.
class Lane {
 public:
  using Clock = std::chrono::steady_clock;

  /// Borrows `protocol` and `queue`.
  Lane(const Protocol& protocol, absl::Duration timeout, grpc::CompletionQueue& queue);
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  /// Sends the next calls over the channel of `stub`, which it borrows. REQUIRES: no call is in
  /// flight.
  void Use(grpc::GenericStub& stub) { stub_ = &stub; }
  /// Begins a call. REQUIRES: no call is in flight; Use was called.
  void Start(LaneCall call);
  /// Takes one event of the queue; true when the call has ended; the functions below then describe
  /// it.
  bool Advance(bool ok);

  const LaneCall& call() const { return call_; }
  const grpc::Status& status() const { return status_; }
  Clock::time_point started() const { return started_; }
  Clock::time_point due() const { return call_.due.value_or(started_); }
  /// Returns the time at which the first message of a stream came.
  std::optional<Clock::time_point> first_message() const { return first_message_; }
  /// Returns the time from each message of a stream to the next.
  const std::vector<int64_t>& message_gaps_ns() const { return message_gaps_ns_; }
  /// Returns the bytes of all messages of the answer.
  int64_t answered_bytes() const { return answered_bytes_; }
  const LoadAnswer& answer() const { return answer_; }
  /// Returns the address of the server that was called, as gRPC writes it: "ipv4:10.0.0.7:8001".
  std::string peer() const { return context_->peer(); }

  /// Releases what an ended call still holds.
  void Clear();

 private:
  enum class Step { kConnect, kSend, kReceive, kFinish };

  void TakeMessage();

  grpc::GenericStub* stub_ = nullptr;
  const Protocol& protocol_;
  const absl::Duration timeout_;
  grpc::CompletionQueue& queue_;

  /// Start holds it, so that Advance waits until Start has returned.
  Mutex starting_;

  // The state of the call in flight, or of the last one.
  LaneCall call_;
  std::optional<grpc::ClientContext> context_;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> unary_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  Step step_ = Step::kFinish;
  grpc::ByteBuffer message_;
  grpc::Status status_;
  Clock::time_point started_;
  std::optional<Clock::time_point> first_message_;
  Clock::time_point last_message_;
  std::vector<int64_t> message_gaps_ns_;
  int64_t answered_bytes_ = 0;
  LoadAnswer answer_;
};

/// Lanes for calls, which are reused. Their calls go to the channels in turn. Thread-safe.
class LanePool {
 public:
  /// Borrows `load`, `options` and `queue`.
  LanePool(const EncodedLoad& load, const LoadOptions& options, const LoadChannels& channels,
           grpc::CompletionQueue& queue);

  /// Returns a lane without a call, which uses the next channel: one that was given back, or else a
  /// new one, which lives as long as the pool; null if there are `max_lanes` already.
  Lane* Take(int max_lanes);
  /// REQUIRES: `lane` was taken, and its call has ended.
  void GiveBack(Lane& lane);

 private:
  const EncodedLoad& load_;
  const LoadOptions& options_;
  grpc::CompletionQueue& queue_;

  Mutex mutex_;
  std::vector<grpc::GenericStub> stubs_ ABSL_GUARDED_BY(mutex_);  // one for each channel
  size_t num_taken_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::unique_ptr<Lane>> lanes_ ABSL_GUARDED_BY(mutex_);
  std::vector<Lane*> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace attention
