// What a small message can make the server take: a table of small messages that name large shapes.
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/services/plan/row_lengths.h"
#include "tests/server/cost_server.h"
#include "tests/server/decode/decode_stream.h"
#include "tests/server/observability/http_client.h"
#include "tests/server/open_inference/infer_client.h"
#include "tests/server/open_inference/infer_requests.h"
#include "tests/server/wire_options.h"
#include "tests/support/eventually.h"
#include "tests/support/fill.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using absl::StatusCode;

Message Infer(const inference::ModelInferRequest& request) {
  return {"/inference.GRPCInferenceService/ModelInfer", request.SerializeAsString()};
}

v1::AttendRequest Bare(int64_t sequences) {
  v1::AttendRequest request;
  v1::QueryKeyValue& input = *request.mutable_query_key_value();
  Claim({sequences, 0, 1, 1}, input.mutable_query());
  Claim({sequences, 0, 1, 1}, input.mutable_key());
  Claim({sequences, 0, 1, 1}, input.mutable_value());
  return request;
}

/// Small messages of a number of something; `bound` of it are answered, one more is refused.
struct Shapes {
  std::string name;
  int64_t bound = kMaxSequences;
  std::function<Message(int64_t)> make;
};

v1::AttendRequest With(v1::AttendRequest request, const std::string& options) {
  *request.mutable_options() = Options(options);
  return request;
}

std::vector<Shapes> NativeShapes() {
  const std::string tables = "return_weights: true return_log_sum_exp: true weights_top_k: 3";
  return {
      {"a stack's padded rows", kMaxSequences,
       [](int64_t n) { return Native(AllLayers(Rows("gpt2", {n, 0, 36}))); }},
      {"a stack's packed rows", kMaxSequences,
       [](int64_t n) {
         v1::AttendRequest request = AllLayers(Rows("gpt2", {0, 36}));
         Fill(request.mutable_hidden_states()->mutable_lengths(), n, int64_t{0});
         return Native(request);
       }},
      {"a layer's rows, with all tables", kMaxSequences,
       [=](int64_t n) { return Native(With(Rows("demo", {n, 0, 512}), tables)); }},
      {"attention without a model, with all tables", kMaxSequences,
       [=](int64_t n) { return Native(With(Bare(n), tables)); }},
      {"attention without a model, options for each sequence", kMaxSequences,
       [](int64_t n) {
         v1::AttendRequest request = Bare(n);
         for (int64_t i = 0; i < n; ++i) {
           request.mutable_options()->add_sequences();
         }
         return Native(request);
       }},
      {"token ids", kMaxSequences,
       [](int64_t n) {
         v1::AttendRequest request;
         request.set_model("gpt2");
         Fill(request.mutable_token_ids()->mutable_lengths(), n, int64_t{0});
         return Native(AllLayers(request));
       }},
      {"texts", kMaxSequences,
       [](int64_t n) {
         v1::AttendRequest request;
         request.set_model("bert");
         for (int64_t i = 0; i < n; ++i) {
           request.mutable_text()->add_texts();
         }
         return Native(AllLayers(request));
       }},
  };
}

// Of an encoder and its decoder: every layer has a table for every sequence.
Shapes EveryLayerOfAnEncoderAndItsDecoder() {
  constexpr int kLayers = 6;
  return {"every layer of an encoder and its decoder", kMaxScoreTables / kLayers, [](int64_t n) {
            v1::AttendRequest request = Rows("torch_transformer", {n, 0, 24});
            Claim({n, 0, 24}, request.mutable_hidden_states()->mutable_memory());
            for (int layer = 0; layer < kLayers; ++layer) {
              request.mutable_weights_choice()->add_layers(layer);
            }
            return Native(request);
          }};
}

std::vector<Shapes> InferShapes() {
  return {
      {"token ids of the Open Inference Protocol", kMaxSequences,
       [](int64_t n) {
         inference::ModelInferRequest request = InferRequest("gpt2");
         AddBytes(request, "input_ids", "INT32", {n, 0}, "");
         return Infer(request);
       }},
      {"attention without a model by Open Inference, with weights", kMaxSequences,
       [](int64_t n) {
         inference::ModelInferRequest request = InferRequest("attention");
         for (const char* const name : {"query", "key", "value"}) {
           AddBytes(request, name, "FP32", {n, 0, 1, 1}, "");
         }
         request.add_outputs()->set_name("weights");
         return Infer(request);
       }},
  };
}

class CostTest : public CostServerTest {
 protected:
  static void ExpectBounded(const Shapes& shapes) {
    Call(shapes.make(1)).IgnoreError();  // what is made once is there then
    for (const int64_t count : {shapes.bound, shapes.bound + 1, kMaxTokens}) {
      const Message message = shapes.make(count);
      const Outcome outcome = CallAtOnce(message);
      const auto sent = static_cast<int64_t>(message.bytes.size());
      EXPECT_LE(outcome.grown_bytes, kFreeBytes + 20 * kAtOnce * sent)
          << count << " by " << sent << " bytes";
      for (const absl::Status& status : outcome.statuses) {
        EXPECT_EQ(status.ok(), count <= shapes.bound) << count << ": " << status;
        EXPECT_TRUE(status.ok() || absl::IsResourceExhausted(status) ||
                    absl::IsInvalidArgument(status))
            << count << ": " << status;
      }
    }
  }
};

TEST_F(CostTest, SmallMessagesOfLargeShapesTakeLittleMemory) {
  for (const Shapes& shapes : NativeShapes()) {
    SCOPED_TRACE(shapes.name);
    ExpectBounded(shapes);
  }
  ExpectBounded(EveryLayerOfAnEncoderAndItsDecoder());
}

TEST_F(CostTest, SoDoThoseOfTheOpenInferenceProtocol) {
  for (const Shapes& shapes : InferShapes()) {
    SCOPED_TRACE(shapes.name);
    ExpectBounded(shapes);
  }
}

// A quarter of a megabyte that says a thousand times as much, where a message may have 4 MiB.
TEST_F(CostTest, BombsTakeTheMemoryOfAMessageThatIsPermitted) {
  constexpr int64_t kPermitted = 4 * kMiB;
  InProcessServer server({.max_message_bytes = kPermitted});
  for (const grpc_compression_algorithm encoding : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    const std::string bomb = Compressed(std::string(kMiB, '\0'), encoding, 256);
    for (const char* const method :
         {"/attention.v1.AttentionService/Attend", "/inference.GRPCInferenceService/ModelInfer",
          "/inference.GRPCInferenceService/ServerLive"}) {
      const Outcome outcome = CallAtOnce({method, bomb, encoding}, server);
      EXPECT_LE(outcome.grown_bytes, kAtOnce * (kPermitted + kMiB)) << method;
      for (const absl::Status& status : outcome.statuses) {
        EXPECT_THAT(status.code(), StatusCode::kResourceExhausted) << status;
      }
    }
  }
}

/// A server whose queue is nearly full.
class FullQueueTest : public ::testing::Test {
 protected:
  FullQueueTest() {
    EXPECT_TRUE(Eventually([&] { return client_.Statistics().waiting_requests() == 1; }));
  }
  ~FullQueueTest() override {
    server_.reset();
    caller_.join();
  }

  bool Counts(const std::string& refused) {
    return Eventually([&] {
      return absl::StrContains(HttpGet(server_->server().metrics_address(), "/metrics"),
                               absl::StrCat("attend_requests_total{model=\"demo\",rpc=\"", refused,
                                            "\",code=\"RESOURCE_EXHAUSTED\"} 1\n"));
    });
  }

  std::unique_ptr<InProcessServer> server_ =
      std::make_unique<InProcessServer>(ServerOptions{.max_queue_bytes = 100'000,
                                                      .max_batch_delay_us = 60'000'000,
                                                      .metrics_listen = "127.0.0.1:0"});
  AttendClient client_{server_->NewChannel()};
  std::thread caller_{[this] {  // waits for others to be computed with it
    v1::AttendResponse response;
    AttendClient(server_->NewChannel())
        .Attend(DemoRequest(SeededTensor(1, Dtype::kF32, {30, kDemoWidth})), &response);
  }};
};

TEST_F(FullQueueTest, ALargeStepWithoutRoomIsRefusedAndItsSessionGoesOn) {
  DecodeStream stream(server_->NewChannel());
  stream.Must(OpenModel("demo"));
  v1::DecodeRequest fork;
  fork.mutable_fork()->set_new_sequence(7);
  stream.Must(fork);
  const DecodeAnswer answer = stream.Do(TokensStep(std::vector<int32_t>(25'000, 500)), 7);
  EXPECT_EQ(answer.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(answer.sequence, 7);
  EXPECT_EQ(answer.result.usage().sequences(), 2);
  EXPECT_GT(answer.result.retry_after_ms(), 0);
  EXPECT_THAT(answer.result.message(), ::testing::HasSubstr("--max-queue-bytes"));
  v1::DecodeRequest truncate;
  truncate.mutable_truncate()->set_length(0);
  stream.Must(truncate, 7);
  EXPECT_TRUE(stream.End().ok());
  EXPECT_TRUE(Counts("Decode.step"));
}

TEST_F(FullQueueTest, AStreamEndsWhenTheIdOfALargeMessageCannotBeRead) {
  DecodeStream stream(server_->NewChannel());
  stream.Must(OpenModel("demo"));
  v1::DecodeRequest step = TokensStep(std::vector<int32_t>(25'000, 500));
  for (int i = 0; i < 1000; ++i) {
    step.GetReflection()->MutableUnknownFields(&step)->AddVarint(99, 1);
  }
  stream.Send(step);
  EXPECT_FALSE(stream.Read().has_value());
  const grpc::Status status = stream.End();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), ::testing::HasSubstr("--max-queue-bytes"));
}

TEST_F(FullQueueTest, ALargeInferenceWithoutRoomIsRefusedAndItsStreamGoesOn) {
  grpc::ClientContext context;
  InferClient client(server_->NewChannel());
  const auto stream = client.stub().ModelStreamInfer(&context);
  inference::ModelInferRequest large;
  large.set_model_name("demo");
  large.set_id("large");
  auto& input = *large.add_inputs();
  input.set_name("input_ids");
  input.set_datatype("INT32");
  Fill(input.mutable_shape(), 2, int64_t{1});
  Fill(input.mutable_contents()->mutable_int_contents(), 25'000, 500);
  inference::ModelInferRequest wrong;
  wrong.set_id("wrong");
  ASSERT_TRUE(stream->Write(large));
  ASSERT_TRUE(stream->Write(wrong));
  inference::ModelStreamInferResponse message;
  ASSERT_TRUE(stream->Read(&message));
  EXPECT_EQ(message.infer_response().id(), "large");
  EXPECT_THAT(message.error_message(), ::testing::HasSubstr("--max-queue-bytes"));
  ASSERT_TRUE(stream->Read(&message));
  EXPECT_EQ(message.infer_response().id(), "wrong");
  stream->WritesDone();
  EXPECT_FALSE(stream->Read(&message));
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_TRUE(Counts("ModelStreamInfer"));
}

}  // namespace
}  // namespace attention
