// One RPC that blocks its thread, in raw bytes, over a completion queue of its own: gRPC's callback
// interface shares queues that sleep 100 ms at a time when idle.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace attention {

/// A unary call of `method` ("/package.Service/Method"). The error is the server's, or gRPC's.
absl::StatusOr<grpc::ByteBuffer> CallUnary(grpc::GenericStub& stub, const std::string& method,
                                           const grpc::ByteBuffer& request, absl::Duration timeout);

/// A call that is answered by a stream. One thread; the destructor cancels what is left.
class BlockingStream {
 public:
  BlockingStream(grpc::GenericStub& stub, const std::string& method,
                 const grpc::ByteBuffer& request, absl::Duration timeout);
  ~BlockingStream();
  BlockingStream(const BlockingStream&) = delete;
  BlockingStream& operator=(const BlockingStream&) = delete;

  /// Waits for the next message; false after the last, or on error.
  bool Read(grpc::ByteBuffer& message);

  /// How the call ended. REQUIRES: Read returned false.
  absl::Status Finish();

 private:
  bool Wait();

  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  bool is_open_ = true;  // there may be more to read
  bool is_finished_ = false;
};

}  // namespace attention
