// A generated service whose methods deliver a call at its headers, before any of the request has
// been read: what is refused then has cost the server next to nothing.
#pragma once

#include <google/protobuf/descriptor.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/byte_buffer.h>

#include <string>

namespace attention {

/// On the wire every call is a stream of messages each way; a unary one has one of each.
using RawStream = grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

/// `Definition` is a generated service's; `Base` may have asynchronous methods.
template <typename Definition, typename Base = typename Definition::Service>
class HeadersFirst : public Base {
 public:
  /// What RequestCall knows a method by. REQUIRES: the .proto has it.
  static int IndexOf(const std::string& method) {
    return google::protobuf::DescriptorPool::generated_pool()
        ->FindServiceByName(Definition::service_full_name())
        ->FindMethodByName(method)
        ->index();
  }

  /// Serves a method that way; others are UNIMPLEMENTED. Once per method, before the service is
  /// registered.
  void Serve(const std::string& method) { this->MarkMethodStreamed(IndexOf(method), nullptr); }

  /// Waits for one call of such a method.
  void RequestCall(int method, grpc::ServerContext& context, RawStream& stream,
                   grpc::ServerCompletionQueue* queue, void* tag) {
    this->RequestAsyncBidiStreaming(method, &context, &stream, queue, queue, tag);
  }
};

}  // namespace attention
