// One session at a time over a completion queue, in raw bytes.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/load/decode_plan.h"
#include "proto/attention/v1/attention.pb.h"

namespace attention {

/// The actions of a session in the order in which they are sent: open, the prompt, and the steps,
/// which are all of one size. Bytes are shared by all sessions.
struct EncodedSession {
  grpc::ByteBuffer open;
  grpc::ByteBuffer prefill;
  /// The first steps; later steps repeat them.
  std::vector<grpc::ByteBuffer> different_steps;
  DecodeOptions options = {};
};

/// Runs sessions one after the other, and sends each action when the one before is answered. Not
/// thread-safe. A lane must not move, since its address is the tag of its events.
class DecodeLane {
 public:
  using Clock = std::chrono::steady_clock;
  /// The events of a session: kOpened, kPrefilled, kStepped for each step, and always at last
  /// kEnded.
  enum class Event { kNone, kOpened, kPrefilled, kStepped, kEnded };

  /// Borrows `session` and `queue`.
  DecodeLane(const std::shared_ptr<grpc::Channel>& channel, const EncodedSession& session,
             grpc::CompletionQueue& queue);
  DecodeLane(const DecodeLane&) = delete;
  DecodeLane& operator=(const DecodeLane&) = delete;

  /// Begins a session whose deadline is `deadline`. REQUIRES: no session is open.
  void Start(std::chrono::system_clock::time_point deadline);
  /// Takes one event of the queue. After kOpened, kPrefilled and kStepped the lane waits for Go.
  Event Advance(bool ok);
  /// Returns whether the session has another action to send.
  bool has_next() const { return num_sent_ < session_.options.steps + 2; }
  /// Sends the next action, or ends the session if `stop`. `keep`: keeps all messages of the
  /// answer. REQUIRES: has_next() or `stop`.
  void Go(bool stop, bool keep);

  /// Returns the number of the last answer within its session; 0 for the answer to the prompt.
  int64_t index() const { return num_sent_ - 2; }
  Clock::time_point session_started() const { return session_started_; }
  Clock::time_point action_started() const { return action_started_; }
  /// Returns the summary of the last action.
  const v1::Summary& summary() const { return result_.summary(); }
  int64_t answered_bytes() const { return answered_bytes_; }
  bool keeps() const { return keep_; }
  const std::vector<grpc::ByteBuffer>& messages() const { return messages_; }
  /// Returns why the session ended early; OK if it did not.
  const absl::Status& failure() const { return failure_; }

 private:
  enum class Step { kConnect, kWrite, kRead, kEndRequests, kLastRead, kFinish };

  Event TakeMessage();
  void Fail(const absl::Status& status);
  void Finish();
  void TakeStatus();
  void Write(const grpc::ByteBuffer& bytes);
  void Read();

  grpc::GenericStub stub_;
  const EncodedSession& session_;
  grpc::CompletionQueue& queue_;

  // The state of the session in progress, or of the last one.
  std::optional<grpc::ClientContext> context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  Step step_ = Step::kFinish;
  int64_t num_sent_ = 0;     // actions
  bool is_stopped_ = false;  // after its last action
  bool keep_ = false;
  int64_t answered_bytes_ = 0;
  grpc::ByteBuffer message_;
  std::vector<grpc::ByteBuffer> messages_;
  v1::DecodeResult result_;
  grpc::Status status_;
  absl::Status failure_;
  Clock::time_point session_started_;
  Clock::time_point action_started_;
};

}  // namespace attention
