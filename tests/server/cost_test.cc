// What a small message can make the server take: a table of small messages that name large shapes.
#include <grpcpp/generic/generic_stub.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <thread>

#include "proto/codec/status.h"
#include "server/services/plan/row_lengths.h"
#include "tests/server/decode/decode_stream.h"
#include "tests/server/models/golden_server.h"
#include "tests/server/open_inference/infer_requests.h"
#include "tests/server/wire_options.h"
#include "tests/support/allocation_meter.h"
#include "tests/support/compressed.h"
#include "tests/support/eventually.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_folder.h"
#include "tests/support/word_tokenizer.h"

namespace attention {
namespace {

using absl::StatusCode;

constexpr int64_t kMiB = int64_t{1} << 20;
// What any request may take beside twenty times its own bytes.
constexpr int64_t kFreeBytes = 64 * kMiB;
constexpr int kAtOnce = 3;

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
Message Infer(const inference::ModelInferRequest& request) {
  return {"/inference.GRPCInferenceService/ModelInfer", request.SerializeAsString()};
}

void Claim(const Shape& shape, v1::Tensor* tensor) {
  WriteTensorHeader(Dtype::kF32, shape, *tensor);
}

v1::AttendRequest Rows(const std::string& model, const Shape& shape) {
  v1::AttendRequest request;
  request.set_model(model);
  Claim(shape, request.mutable_hidden_states()->mutable_tensor());
  return request;
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

v1::AttendRequest AllLayers(v1::AttendRequest request) {
  request.mutable_weights_choice()->add_layers(0);
  request.mutable_weights_choice()->add_layers(1);
  return request;
}

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
         request.mutable_hidden_states()->mutable_lengths()->Resize(static_cast<int>(n), 0);
         return Native(request);
       }},
      {"a layer's rows, with all tables", kMaxSequences,
       [=](int64_t n) { return Native(With(Rows("demo", {n, 0, 512}), tables)); }},
      {"bare attention, with all tables", kMaxSequences,
       [=](int64_t n) { return Native(With(Bare(n), tables)); }},
      {"bare attention with options for each sequence", kMaxSequences,
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
         request.mutable_token_ids()->mutable_lengths()->Resize(static_cast<int>(n), 0);
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
      {"bare attention of the Open Inference Protocol, with weights", kMaxSequences,
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

class CostTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TempFolder>();
    for (const std::string model : {"gpt2", "bert", "llama", "torch_transformer"}) {
      std::filesystem::copy(kCheckpoints + "/" + model, folder_->path() + "/" + model);
      folder_->Write(model + "/tokenizer.json", kWordTokenizer);
    }
    server_ = std::make_unique<InProcessServer>(ServerOptionsFor(folder_->path()));
  }
  static void TearDownTestSuite() {
    server_.reset();
    folder_.reset();
  }

  static absl::Status Call(const Message& message) { return Call(message, *server_); }
  static absl::Status Call(const Message& message, const InProcessServer& server) {
    grpc::GenericStub stub(server.NewChannel());
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
    const grpc::Slice slice(message.bytes);
    context.set_compression_algorithm(message.encoding);
    const auto call =
        stub.PrepareUnaryCall(&context, message.method,
                              AsCompressed(grpc::ByteBuffer(&slice, 1), message.encoding), &queue);
    call->StartCall();
    grpc::ByteBuffer reply;  // which is not parsed: that would count, too
    grpc::Status status;
    call->Finish(&reply, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue.Next(&tag, &ok));
    return ToAbslStatus(status);
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

  static inline std::unique_ptr<TempFolder> folder_;
  static inline std::unique_ptr<InProcessServer> server_;
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

// Cutting it takes long, and then it is refused: its last word is beyond the model's vocabulary.
v1::TextInput LongText(int64_t words) {
  v1::TextInput input;
  std::string& text = *input.add_texts();
  for (int64_t i = 0; i < words; ++i) {
    text += "the ";
  }
  text += "beyond";
  return input;
}

v1::AttendRequest LongTextRequest(int64_t words) {
  v1::AttendRequest request;
  request.set_model("llama");
  *request.mutable_text() = LongText(words);
  return request;
}

/// What others get while something long goes on.
class HonestCallerTest : public CostTest {
 protected:
  /// The server has begun with it: memory is reserved.
  bool HasReserved() {
    grpc::ClientContext context;
    v1::ServerStatistics statistics;
    EXPECT_TRUE(client_.stub().GetStatistics(&context, {}, &statistics).ok());
    return statistics.waiting_bytes() > 0;
  }
  int64_t NumBatches() {
    grpc::ClientContext context;
    v1::ServerStatistics statistics;
    EXPECT_TRUE(client_.stub().GetStatistics(&context, {}, &statistics).ok());
    return statistics.batches();
  }
  v1::AttendResponse Attend(const v1::AttendRequest& request) {
    v1::AttendResponse response;
    const grpc::Status status = client_.Attend(request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  AttendClient client_{server_->NewChannel()};
};

constexpr int64_t kManyWords = 700'000;

TEST_F(HonestCallerTest, LongTextsKeepNobodyWaiting) {
  const Message message = Native(LongTextRequest(kManyWords));
  std::atomic<int> finished = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 5; ++i) {  // more than there are completion threads
    callers.emplace_back([&] {
      EXPECT_THAT(Call(message), StatusIs(StatusCode::kInvalidArgument,
                                          ::testing::HasSubstr("expected 0 to 46, found 47")));
      ++finished;
    });
  }
  EXPECT_TRUE(Eventually([&] { return finished > 0 || HasReserved(); }));
  Attend(DemoRequest(SeededTensor(1, Dtype::kF32, {2, kDemoWidth})));
  EXPECT_EQ(finished, 0) << "a short request waited for a long text";
  v1::AttendRequest texts;
  texts.set_model("bert");
  for (int i = 0; i < 2000; ++i) {
    texts.mutable_text()->add_texts("the cat sat");
  }
  EXPECT_EQ(Attend(texts).tokens_size(), 2000);
  EXPECT_EQ(finished, 0) << "texts waited for longer ones of another connection";
  for (std::thread& caller : callers) {
    caller.join();
  }
}

TEST_F(HonestCallerTest, APipelinedStepIsNotPlannedByTheDispatcher) {
  v1::DecodeRequest open, first, second;
  open.mutable_open()->set_model("llama");
  first.mutable_step()->mutable_token_ids()->add_ids(1);
  *second.mutable_step()->mutable_text() = LongText(kManyWords);
  DecodeStream stream(server_->NewChannel());
  stream.Must(open);
  std::atomic<bool> is_refused = false;
  std::thread caller([&] {
    stream.Send(first);
    stream.Send(second);
    EXPECT_EQ(stream.Read()->result.code(), 0);
    EXPECT_EQ(stream.Read()->code(), StatusCode::kInvalidArgument);
    is_refused = true;
  });
  EXPECT_TRUE(Eventually([&] { return is_refused || HasReserved(); }));
  Attend(DemoRequest(SeededTensor(1, Dtype::kF32, {2, kDemoWidth})));
  EXPECT_FALSE(is_refused) << "a short request waited for a step's plan";
  caller.join();
}

TEST_F(HonestCallerTest, ARequestPassesInFewBatchesWhileSmallMessagesOfLargeShapesCome) {
  const Message message = NativeShapes()[0].make(kMaxSequences);
  std::atomic<bool> is_over = false;
  std::vector<std::thread> callers;
  for (int i = 0; i < kAtOnce; ++i) {
    callers.emplace_back([&] {
      while (!is_over) {
        EXPECT_THAT(Call(message), IsOk());
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    const int64_t before = NumBatches();
    const v1::AttendResponse response =
        Attend(DemoRequest(SeededTensor(1, Dtype::kF32, {2, kDemoWidth})));
    EXPECT_LE(static_cast<int64_t>(response.summary().batch_id()), before + 2 * kAtOnce + 1);
  }
  is_over = true;
  for (std::thread& caller : callers) {
    caller.join();
  }
}

TEST(StreamCostTest, ALargeMessageThatFindsNoRoomEndsItsStream) {
  auto server = std::make_unique<InProcessServer>(
      ServerOptions{.max_queue_bytes = 100'000, .max_batch_delay_us = 60'000'000});
  AttendClient client(server->NewChannel());
  std::thread caller([&] {  // waits for others to be computed with it
    v1::AttendResponse response;
    client.Attend(DemoRequest(SeededTensor(1, Dtype::kF32, {30, kDemoWidth})), &response);
  });
  AttendClient other(server->NewChannel());
  EXPECT_TRUE(Eventually([&] {
    grpc::ClientContext context;
    v1::ServerStatistics statistics;
    return other.stub().GetStatistics(&context, {}, &statistics).ok() &&
           statistics.waiting_requests() == 1;
  }));
  DecodeStream stream(server->NewChannel());
  stream.Must(OpenModel("demo"));
  stream.Send(TokensStep(std::vector<int32_t>(25'000, 500)));
  EXPECT_FALSE(stream.Read().has_value());
  const grpc::Status status = stream.End();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), ::testing::HasSubstr("--max-queue-bytes"));
  server.reset();
  caller.join();
}

}  // namespace
}  // namespace attention
