// Blocking calls of the Open Inference service through the generated stub.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "proto/codec/status.h"
#include "proto/inference/open_inference.grpc.pb.h"
#include "tests/support/byte_buffer.h"

namespace attention {

class InferClient {
 public:
  using Stub = inference::GRPCInferenceService::Stub;

  explicit InferClient(const std::shared_ptr<grpc::Channel>& channel)
      : stub_(inference::GRPCInferenceService::NewStub(channel)) {}

  Stub& stub() { return *stub_; }

  /// Call(&Stub::ServerLive, request).
  template <typename Request, typename Reply>
  absl::StatusOr<Reply> Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                          Reply*),
                             const Request& request) {
    grpc::ClientContext context;
    SetDeadline(context);
    Reply reply;
    const grpc::Status status = ((*stub_).*method)(&context, request, &reply);
    if (!status.ok()) {
      return ToAbslStatus(status);
    }
    return reply;
  }
  absl::StatusOr<inference::ModelInferResponse> Infer(const inference::ModelInferRequest& request) {
    return Call(&Stub::ModelInfer, request);
  }

  /// Sends the bytes of a request to the method and returns the bytes of the reply.
  static absl::StatusOr<std::string> CallWithBytes(const std::shared_ptr<grpc::Channel>& channel,
                                                   const std::string& method,
                                                   const grpc::ByteBuffer& request) {
    grpc::GenericStub stub(channel);
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    SetDeadline(context);
    grpc::ByteBuffer reply;
    grpc::Status status;
    const auto call = stub.PrepareUnaryCall(&context, "/inference.GRPCInferenceService/" + method,
                                            request, &queue);
    call->StartCall();
    call->Finish(&reply, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue.Next(&tag, &ok));
    if (!status.ok()) {
      return ToAbslStatus(status);
    }
    return Join(reply);
  }

  static void SetDeadline(grpc::ClientContext& context) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(5));
  }

 private:
  std::unique_ptr<Stub> stub_;
};

}  // namespace attention
