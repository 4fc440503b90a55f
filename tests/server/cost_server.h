// A server, and small messages of large shapes for it.
#pragma once

#include <grpcpp/generic/generic_stub.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "proto/codec/status.h"
#include "tests/server/models/golden_server.h"
#include "tests/support/allocation_meter.h"
#include "tests/support/compressed.h"
#include "tests/support/temp_folder.h"
#include "tests/support/word_tokenizer.h"

namespace attention {

inline constexpr int64_t kMiB = int64_t{1} << 20;
// What any request may take beside twenty times its own bytes.
inline constexpr int64_t kFreeBytes = 64 * kMiB;
// So many callers send the same at once.
inline constexpr int kAtOnce = 3;

/// A message as it goes over the wire.
struct Message {
  std::string method;
  std::string bytes;
  grpc_compression_algorithm encoding = GRPC_COMPRESS_NONE;
};

template <typename Request>
Message Native(const Request& request) {
  return {"/attention.v1.AttentionService/Attend", request.SerializeAsString()};
}

/// Names a shape, without its numbers.
inline void Claim(const Shape& shape, v1::Tensor* tensor) {
  WriteTensorHeader(Dtype::kF32, shape, *tensor);
}

inline v1::AttendRequest Rows(const std::string& model, const Shape& shape) {
  v1::AttendRequest request;
  request.set_model(model);
  Claim(shape, request.mutable_hidden_states()->mutable_tensor());
  return request;
}

/// `request` with the attention weights of layers 0 and 1.
inline v1::AttendRequest AllLayers(v1::AttendRequest request) {
  request.mutable_weights_choice()->add_layers(0);
  request.mutable_weights_choice()->add_layers(1);
  return request;
}

class CostServerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TempFolder>();
    for (const std::string model : {"gpt2", "bert", "llama", "torch_transformer"}) {
      std::filesystem::copy(kCheckpoints + "/" + model, folder_->path() + "/" + model);
      folder_->Write(model + "/tokenizer.json", kWordTokenizer);
    }
    ServerOptions options = ServerOptionsFor(folder_->path());
    options.max_queue_wait = absl::Minutes(10);  // a slow machine refuses nothing
    server_ = std::make_unique<InProcessServer>(options);
  }
  static void TearDownTestSuite() {
    server_.reset();
    folder_.reset();
  }

  static absl::Status Call(const Message& message) { return Call(message, *server_); }
  static absl::Status Call(const Message& message, const InProcessServer& server) {
    grpc::GenericStub stub(server.NewChannel());
    void* const tag = &stub;
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(5));
    const grpc::Slice slice(message.bytes);
    context.set_compression_algorithm(message.encoding);
    const auto call = stub.PrepareCall(&context, message.method, &queue);
    call->StartCall(tag);
    Wait(queue);
    call->WriteLast(AsCompressed(grpc::ByteBuffer(&slice, 1), message.encoding),
                    grpc::WriteOptions(), tag);
    Wait(queue);
    bool has_more = true;
    while (has_more) {
      grpc::ByteBuffer reply;  // which is not parsed: that would count, too
      call->Read(&reply, tag);
      has_more = Wait(queue);
    }
    grpc::Status status;
    call->Finish(&status, tag);
    Wait(queue);
    return ToAbslStatus(status);
  }
  /// Returns whether the operation succeeded.
  static bool Wait(grpc::CompletionQueue& queue) {
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue.Next(&tag, &ok));
    return ok;
  }

  /// The same message from several callers at once: what each was told, and what it took.
  struct Outcome {
    std::vector<absl::Status> statuses = std::vector<absl::Status>(kAtOnce);
    int64_t grown_bytes = 0;
  };
  static Outcome CallAtOnce(const Message& message) { return CallAtOnce(message, *server_); }
  static Outcome CallAtOnce(const Message& message, const InProcessServer& server) {
    Outcome outcome;
    const AllocationMeter meter;
    std::vector<std::thread> callers;
    for (absl::Status& status : outcome.statuses) {
      callers.emplace_back([&] { status = Call(message, server); });
    }
    for (std::thread& caller : callers) {
      caller.join();
    }
    outcome.grown_bytes = meter.peak_bytes();
    return outcome;
  }

  static inline std::unique_ptr<TempFolder> folder_;
  static inline std::unique_ptr<InProcessServer> server_;
};

}  // namespace attention
