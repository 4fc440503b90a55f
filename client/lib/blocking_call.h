// One RPC that blocks its thread, in raw bytes, over a completion queue of its own: gRPC's callback
// interface shares queues that sleep 100 ms at a time when idle.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace attention {

/// INVALID_ARGUMENT, which says `name`, unless `timeout` is positive and finite.
absl::Status CheckTimeout(absl::Duration timeout, const char* name);

/// A unary call of `method` ("/package.Service/Method"). The error is the server's, or gRPC's; its
/// payload kPushback (retry_policy.h) is the server's trailer.
absl::StatusOr<grpc::ByteBuffer> CallUnary(grpc::GenericStub& stub, const std::string& method,
                                           const grpc::ByteBuffer& request, absl::Duration timeout);

/// A call whose answer, and perhaps request, is a stream. For one thread. The destructor cancels a
/// call that has not ended. If an operation does not end by its deadline, the whole call is
/// cancelled.
class BlockingStream {
 public:
  /// The whole call ends within `timeout` from now.
  BlockingStream(grpc::GenericStub& stub, const std::string& method, absl::Duration timeout);
  ~BlockingStream();
  BlockingStream(const BlockingStream&) = delete;
  BlockingStream& operator=(const BlockingStream&) = delete;

  /// Writes a message; false if the call has ended.
  bool Write(const grpc::ByteBuffer& message, absl::Time deadline);
  /// Writes the only message of a request.
  bool WriteLast(const grpc::ByteBuffer& message);
  /// Waits for the next message; false after the last, or on error.
  bool Read(grpc::ByteBuffer& message, absl::Time deadline = absl::InfiniteFuture());
  /// Ends the requests.
  void EndRequests(absl::Time deadline);
  void Cancel() { context_.TryCancel(); }
  /// How the call ended; the same each time. REQUIRES: Write or Read returned false.
  absl::Status Finish(absl::Time deadline = absl::InfiniteFuture());
  /// Whether a deadline of these functions passed.
  bool timed_out() const { return timed_out_; }

 private:
  bool Start(absl::Time deadline);
  bool Wait(absl::Time deadline);

  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  bool is_started_ = false;
  bool is_finished_ = false;
  bool timed_out_ = false;
  absl::Status status_;
};

}  // namespace attention
