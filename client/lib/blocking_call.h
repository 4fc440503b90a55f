// Calls that block their thread, in raw bytes. Each has a completion queue of its own: gRPC's
// callback interface shares queues that sleep 100 ms at a time when idle.
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

/// Returns INVALID_ARGUMENT, which says `name`, unless `timeout` is positive and at most a year.
absl::Status CheckTimeout(absl::Duration timeout, const char* name);

/// Makes a unary call of `method` ("/package.Service/Method"). The error is the server's, or
/// gRPC's; its payload kPushback (retry_policy.h) is the server's trailer.
absl::StatusOr<grpc::ByteBuffer> CallUnary(grpc::GenericStub& stub, const std::string& method,
                                           const grpc::ByteBuffer& request, absl::Duration timeout);

/// A call whose answer, and perhaps request, is a stream. Only one thread at a time may use it. The
/// destructor cancels a call that has not ended. If an operation does not end by its deadline, it
/// cancels the whole call.
class BlockingStream {
 public:
  /// Prepares a call that ends within `timeout` from now.
  BlockingStream(grpc::GenericStub& stub, const std::string& method, absl::Duration timeout);
  ~BlockingStream();
  BlockingStream(const BlockingStream&) = delete;
  BlockingStream& operator=(const BlockingStream&) = delete;

  /// Writes a message. Returns false if the call has ended.
  bool Write(const grpc::ByteBuffer& message, absl::Time deadline);
  /// Writes the only message of a request.
  bool WriteLast(const grpc::ByteBuffer& message);
  /// Waits for the next message. Returns false after the last, or on an error. REQUIRES: Write or
  /// WriteLast was called.
  bool Read(grpc::ByteBuffer& message, absl::Time deadline = absl::InfiniteFuture());
  /// Ends the requests. REQUIRES: Write was called.
  void EndRequests(absl::Time deadline);
  void Cancel() { context_.TryCancel(); }
  /// Returns the status of the call, the same each time. REQUIRES: Write or Read returned false.
  absl::Status Finish(absl::Time deadline = absl::InfiniteFuture());
  /// Returns whether the deadline of an operation passed.
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
