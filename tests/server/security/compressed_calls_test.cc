// Compressed requests: answered as others are, and never inflated to more than a message may have.
// The client's library compresses them.
#include <grpcpp/generic/generic_stub.h>

#include "gmock/gmock.h"
#include "proto/grpc/health/v1/health.grpc.pb.h"
#include "tests/server/decode/decode_stream.h"
#include "tests/server/http2_bytes.h"
#include "tests/server/open_inference/infer_client.h"
#include "tests/server/open_inference/infer_requests.h"
#include "tests/support/in_process_server.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr grpc_compression_algorithm kAlgorithms[] = {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE};
constexpr int64_t kMaxMessageBytes = 1 << 20;
// Zeros that take 64 KiB of wire; a thousand servers' messages would be memory enough to end one.
constexpr size_t kBombBytes = size_t{64} << 20;

class CompressedCallsTest : public ::testing::TestWithParam<grpc_compression_algorithm> {
 protected:
  void Prepare(grpc::ClientContext& context) {
    context.set_compression_algorithm(GetParam());
    InferClient::SetDeadline(context);
  }
  absl::StatusOr<v1::AttendResponse> Attend(const v1::AttendRequest& request) {
    grpc::ClientContext context;
    Prepare(context);
    v1::AttendResponse response;
    const grpc::Status status =
        v1::AttentionService::NewStub(channel_)->Attend(&context, request, &response);
    return status.ok() ? absl::StatusOr<v1::AttendResponse>(response) : ToAbslStatus(status);
  }
  absl::StatusOr<inference::ModelInferResponse> Infer(const inference::ModelInferRequest& request) {
    grpc::ClientContext context;
    Prepare(context);
    inference::ModelInferResponse response;
    const grpc::Status status = inference::GRPCInferenceService::NewStub(channel_)->ModelInfer(
        &context, request, &response);
    return status.ok() ? absl::StatusOr<inference::ModelInferResponse>(response)
                       : ToAbslStatus(status);
  }

  InProcessServer server_{{.max_message_bytes = kMaxMessageBytes}};
  const std::shared_ptr<grpc::Channel> channel_ = server_.NewChannel();
};

INSTANTIATE_TEST_SUITE_P(Of, CompressedCallsTest, ::testing::ValuesIn(kAlgorithms),
                         [](const auto& of) {
                           return of.param == GRPC_COMPRESS_GZIP ? "Gzip" : "Deflate";
                         });

v1::AttendRequest TwoRows() { return DemoRequest(SeededTensor(1, Dtype::kF32, {1, 2, 512})); }

v1::AttendRequest Bomb() {
  v1::AttendRequest bomb = TwoRows();
  bomb.mutable_hidden_states()->mutable_tensor()->set_data(std::string(kBombBytes, '\0'));
  return bomb;
}

inference::ModelInferRequest InferBomb() {
  inference::ModelInferRequest bomb = InferRequest("demo");
  AddBytes(bomb, "hidden_states", "FP32", {1, 32768, 512}, std::string(kBombBytes, '\0'));
  return bomb;
}

auto IsTooMuch() {
  return StatusIs(absl::StatusCode::kResourceExhausted,
                  AllOf(HasSubstr("expected a message of at most 1048576 bytes "
                                  "(--max-message-bytes), found "),
                        HasSubstr(" that inflate to more")));
}

TEST_P(CompressedCallsTest, RequestsHaveTheAnswersOfOthers) {
  grpc::ClientContext plain;
  v1::AttendResponse expected;
  ASSERT_TRUE(v1::AttentionService::NewStub(channel_)->Attend(&plain, TwoRows(), &expected).ok());
  const auto answer = Attend(TwoRows());
  ASSERT_THAT(answer, IsOk());
  EXPECT_TRUE(answer->output().data() == expected.output().data());

  inference::ModelInferRequest request = InferRequest("demo");
  AddTensor(request, "hidden_states", SeededTensor(1, Dtype::kF32, {1, 2, 512}));
  const auto inferred = Infer(request);
  ASSERT_THAT(inferred, IsOk());
  EXPECT_TRUE(inferred->raw_output_contents(0) == expected.output().data());
}

TEST_P(CompressedCallsTest, StreamsTakeCompressedMessages) {
  grpc::ClientContext context;
  Prepare(context);
  const auto stream =
      inference::GRPCInferenceService::NewStub(channel_)->ModelStreamInfer(&context);
  inference::ModelInferRequest request = InferRequest("demo");
  AddBytes(request, "hidden_states", "FP32", {1, 100, 512}, std::string(204'800, '\0'));
  for (const char* const id : {"one", "two"}) {
    request.set_id(id);
    ASSERT_TRUE(stream->Write(request));
  }
  stream->WritesDone();
  inference::ModelStreamInferResponse response;
  for (const char* const id : {"one", "two"}) {
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.error_message(), "");
    EXPECT_EQ(response.infer_response().id(), id);
  }
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_P(CompressedCallsTest, SmallCallsTakeThemToo) {
  grpc::ClientContext context;
  Prepare(context);
  grpc::health::v1::HealthCheckRequest request;
  grpc::health::v1::HealthCheckResponse response;
  request.set_service("model/demo");
  EXPECT_TRUE(
      grpc::health::v1::Health::NewStub(channel_)->Check(&context, request, &response).ok());
  EXPECT_EQ(response.status(), grpc::health::v1::HealthCheckResponse::SERVING);
}

TEST_P(CompressedCallsTest, ABombIsRefusedAndOthersAreAnswered) {
  EXPECT_THAT(Attend(Bomb()), IsTooMuch());
  EXPECT_THAT(Infer(InferBomb()), IsTooMuch());
  EXPECT_THAT(Attend(TwoRows()), IsOk());
}

TEST_P(CompressedCallsTest, ABombEndsItsStream) {
  grpc::ClientContext context;
  Prepare(context);
  const auto stream =
      inference::GRPCInferenceService::NewStub(channel_)->ModelStreamInfer(&context);
  inference::ModelInferRequest first = InferRequest("demo");
  AddTensor(first, "hidden_states", SeededTensor(1, Dtype::kF32, {1, 2, 512}));
  ASSERT_TRUE(stream->Write(first));
  ASSERT_TRUE(stream->Write(InferBomb()));
  inference::ModelStreamInferResponse response;
  EXPECT_TRUE(stream->Read(&response)) << "what came before is answered";
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_THAT(ToAbslStatus(stream->Finish()), IsTooMuch());
  EXPECT_THAT(Attend(TwoRows()), IsOk());
}

TEST_P(CompressedCallsTest, SmallCallsHaveASmallBound) {
  grpc::ClientContext context;
  Prepare(context);
  grpc::health::v1::HealthCheckRequest request;
  grpc::health::v1::HealthCheckResponse response;
  request.set_service(std::string(1 << 20, 'x'));
  EXPECT_THAT(ToAbslStatus(
                  grpc::health::v1::Health::NewStub(channel_)->Check(&context, request, &response)),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("expected a message of at most 4096 bytes, found "),
                             HasSubstr(" that inflate to more"))));
}

TEST_P(CompressedCallsTest, WhatIsInflatedIsOfTheQueuesBudget) {
  InProcessServer small({.max_message_bytes = 4 << 20, .max_queue_bytes = 2 << 20});
  grpc::ClientContext context;
  Prepare(context);
  v1::AttendRequest request = TwoRows();
  request.mutable_hidden_states()->mutable_tensor()->set_data(std::string(3 << 20, '\0'));
  v1::AttendResponse response;
  EXPECT_THAT(
      ToAbslStatus(
          v1::AttentionService::NewStub(small.NewChannel())->Attend(&context, request, &response)),
      StatusIs(absl::StatusCode::kResourceExhausted,
               AnyOf(HasSubstr("its share of the queue"), HasSubstr("--max-queue-bytes"))));
}

// Its bytes would be parsed as if they were the message.
class UnknownEncodingTest : public ::testing::TestWithParam<const char*> {};

TEST_P(UnknownEncodingTest, IsUnimplemented) {
  InProcessServer server;
  for (const std::string encoding : {"", "identity", "zstd", "snappy"}) {
    // An unknown field, which would be dropped.
    for (const std::string& message : {std::string(), std::string("\xf8\x01\x01", 3)}) {
      Http2Socket socket(server.address());
      const std::string headers =
          CallHeaders(GetParam()) + (encoding.empty() ? "" : Header("grpc-encoding", encoding));
      const std::string prefix = {'\1', 0, 0, 0, static_cast<char>(message.size())};
      socket.Send(Frame(1, 4, 1, headers) + Frame(0, 1, 1, prefix + message));
      const std::string text =
          "grpc-encoding: expected gzip or deflate for a compressed message, found another "
          "encoding or none";
      const std::string answer = socket.ReceiveUntil(text);
      EXPECT_THAT(answer, AllOf(HasSubstr(text), HasSubstr("grpc-status\x02" + std::string("12"))))
          << encoding;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, UnknownEncodingTest,
                         ::testing::Values("/attention.v1.AttentionService/Attend",
                                           "/attention.v1.AttentionService/Decode",
                                           "/attention.v1.AttentionService/ListModels",
                                           "/inference.GRPCInferenceService/ModelInfer",
                                           "/inference.GRPCInferenceService/ModelStreamInfer",
                                           "/grpc.health.v1.Health/Check",
                                           "/grpc.health.v1.Health/Watch",
                                           "/grpc.reflection.v1.ServerReflection/"
                                           "ServerReflectionInfo"));

}  // namespace
}  // namespace attention
