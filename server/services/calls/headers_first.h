// A generated service whose methods deliver a call when its headers have arrived, before any of the
// request is read, so that a call that is refused then costs the server almost nothing.
#pragma once

#include <google/protobuf/descriptor.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/byte_buffer.h>

#include <string>

#include "server/services/calls/completion_threads.h"

namespace attention {

/// A call on the wire is a stream of messages each way; a unary call has one message each way.
using RawStream = grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

/// A service to register with a server's builder. `Definition` is the generated service.
template <typename Definition>
class HeadersFirst : public Definition::Service {
 public:
  /// Returns the index of a method for RequestCall. REQUIRES: the .proto has it.
  static int IndexOf(const std::string& method) {
    return google::protobuf::DescriptorPool::generated_pool()
        ->FindServiceByName(Definition::service_full_name())
        ->FindMethodByName(method)
        ->index();
  }

  /// Makes the method deliver calls by RequestCall; other methods are UNIMPLEMENTED. Called once
  /// per method, before the service is registered.
  void Serve(const std::string& method) { this->MarkMethodStreamed(IndexOf(method), nullptr); }

  /// Waits for one call of a method.
  void RequestCall(int method, grpc::ServerContext& context, RawStream& stream,
                   grpc::ServerCompletionQueue* queue, void* tag) {
    this->RequestAsyncBidiStreaming(method, &context, &stream, queue, queue, tag);
  }
  /// Waits for one call of a method, whose end is told too, as by ArmForClient.
  template <typename Call>
  void AwaitClient(int method, grpc::ServerContext& context, RawStream& stream,
                   grpc::ServerCompletionQueue* queue, CallTag<Call>& on_done,
                   CallTag<Call>& on_request) {
    ArmForClient(on_done, on_request,
                 [&](void* tag) { RequestCall(method, context, stream, queue, tag); });
  }
};

}  // namespace attention
