// A generated service some of whose methods deliver a call at its headers, before any of the
// request has been read: what is refused then has cost the server next to nothing.
#pragma once

#include <grpcpp/completion_queue.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/byte_buffer.h>

#include <initializer_list>

namespace attention {

/// On the wire every call is a stream of messages each way; a unary one has one of each.
using RawStream = grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

/// `Service` is a generated service, or one with asynchronous methods.
template <typename Service>
class HeadersFirst : public Service {
 public:
  /// Methods by their index in the .proto.
  HeadersFirst(std::initializer_list<int> methods) {
    for (const int method : methods) {
      this->MarkMethodStreamed(method, nullptr);
    }
  }

  /// Waits for one call of such a method.
  void RequestCall(int method, grpc::ServerContext& context, RawStream& stream,
                   grpc::ServerCompletionQueue* queue, void* tag) {
    this->RequestAsyncBidiStreaming(method, &context, &stream, queue, queue, tag);
  }
};

}  // namespace attention
