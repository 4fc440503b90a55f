// The prefix cache behind the wire: the same bits as without it, and who takes from it.
#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "core/kernels/onednn/isa.h"
#include "tests/server/decode/decode_stream.h"
#include "tests/server/models/admin_client.h"
#include "tests/server/models/golden_server.h"
#include "tests/server/observability/http_client.h"
#include "tests/server/open_inference/infer_client.h"
#include "tests/server/prefix_requests.h"
#include "tests/server/token_ids.h"
#include "tests/support/eventually.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::HasSubstr;

ServerOptions CachingOptions() {
  ServerOptions options = ServerOptionsFor(kCheckpoints);
  options.admin_listen = options.metrics_listen = "127.0.0.1:0";
  options.prefix_cache_bytes = 256 << 20;
  return options;
}

/// A server with a prefix cache of its own for each test, and one without for all.
class PrefixTest : public GoldenServerTest {
 protected:
  /// Asks both servers, expects the same bits, and returns how many tokens were cached.
  int64_t Ask(const v1::AttendRequest& request) {
    v1::AttendResponse response;
    const grpc::Status status = caching_client_.Attend(request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    const v1::AttendResponse expected = Attend(request);
    EXPECT_TRUE(response.output().data() == expected.output().data()) << "the bits differ";
    EXPECT_EQ(response.output().shape().size(), expected.output().shape().size());
    EXPECT_EQ(expected.summary().cached_tokens(), 0);
    return response.summary().cached_tokens();
  }

  InProcessServer caching_{CachingOptions()};
  AttendClient caching_client_{caching_.NewChannel()};
};

constexpr int64_t kLengths[] = {1, 63, 64, 65, 511, 512, 513, 2047, 2048, 2049};

TEST_F(PrefixTest, OneShotRequestsHaveTheSameBitsWhereverTheirPrefixEnds) {
  int32_t seed = 1;
  for (const int64_t length : kLengths) {
    const Ids prefix = MakePrompt(++seed, length);
    EXPECT_EQ(Ask(PromptRequest("llama", Join(prefix, {1, 2, 3}))), 0) << length;
    EXPECT_EQ(Ask(PromptRequest("llama", Join(prefix, {4, 5}))), length);
    EXPECT_EQ(Ask(PromptRequest("llama", Join(prefix, {4, 5, 6, 7}))), length + 2);
    EXPECT_EQ(Ask(PromptRequest("llama", prefix)), length - 1) << "the last row is computed";
  }
}

TEST_F(PrefixTest, EveryOutputHasTheSameBits) {
  for (const char* model : {"gpt2", "llama", "gemma2", "gpt_neox", "mistral"}) {
    const Ids prefix = MakePrompt(3, 20);
    EXPECT_EQ(Ask(PromptRequest(model, prefix)), 0) << model;
    int32_t last = 0;
    for (const auto output :
         {v1::LAST_HIDDEN_STATES, v1::MEAN_POOLED, v1::CLS_POOLED, v1::LOGITS, v1::LAST_LOGITS}) {
      EXPECT_EQ(Ask(PromptRequest(model, Join(prefix, {++last, 7}), output)), 20)
          << model << " " << v1::ModelOutput_Name(output);
    }
  }
}

TEST_F(PrefixTest, SequencesOfOneRequestTakeWhatEachHas) {
  const Ids prefix = MakePrompt(5, 30);
  const Ids other = MakePrompt(6, 32);
  Ask(PromptRequest("llama", prefix));
  v1::AttendRequest request = PromptRequest("llama", Join(Join(prefix, {1, 2}), other));
  request.mutable_token_ids()->clear_lengths();
  for (const int64_t length : {32, 0, 32}) {
    request.mutable_token_ids()->add_lengths(length);
  }
  EXPECT_EQ(Ask(request), 30);
  EXPECT_EQ(Ask(request), 31 + 31);
}

TEST_F(PrefixTest, StreamsSendTheSameRows) {
  const Ids prefix = MakePrompt(7, 600);
  Ask(PromptRequest("llama", prefix));
  const v1::AttendRequest request = PromptRequest("llama", Join(prefix, {1, 2, 3}));
  std::vector<v1::AttendStreamResponse> parts;
  ASSERT_TRUE(caching_client_.AttendStream(request, &parts).ok());
  std::string rows;
  for (const v1::AttendStreamResponse& part : parts) {
    rows += part.rows().output().data();
  }
  EXPECT_TRUE(rows == Attend(request).output().data());
  EXPECT_EQ(parts.back().summary().cached_tokens(), 600);
}

TEST_F(PrefixTest, RequestsAtTheSameTimeHaveTheSameBits) {
  const Ids prefix = MakePrompt(8, 700);
  constexpr int kCallers = 4;
  std::vector<std::string> outputs(kCallers);
  for (int round = 0; round < 2; ++round) {
    std::vector<std::thread> callers;
    for (int i = 0; i < kCallers; ++i) {
      callers.emplace_back([&, i] {
        AttendClient client(caching_.NewChannel());
        v1::AttendResponse response;
        EXPECT_TRUE(client.Attend(PromptRequest("llama", Join(prefix, {i})), &response).ok());
        outputs[i] = response.output().data();
      });
    }
    for (std::thread& caller : callers) {
      caller.join();
    }
    for (int i = 0; i < kCallers; ++i) {
      EXPECT_TRUE(outputs[i] == Attend(PromptRequest("llama", Join(prefix, {i}))).output().data());
    }
  }
}

/// Requests that wait together for what they have in common, which ends within a page: each copies
/// a part of it, and all together would need more memory than there is.
TEST_F(PrefixTest, ManyWaitingRequestsTakeWhatTheyHaveInCommon) {
  ServerOptions options = CachingOptions();
  options.threads = 1;
  options.max_cache_bytes = 4 << 20;
  options.prefix_cache_bytes = 2 << 20;
  InProcessServer server(options);
  const Ids prefix = MakePrompt(8, 1000);
  AttendClient first(server.NewChannel());
  v1::AttendResponse response;
  ASSERT_TRUE(first.Attend(PromptRequest("llama", Join(prefix, {39, 39})), &response).ok());
  ASSERT_TRUE(first.Attend(PromptRequest("llama", Join(prefix, {38, 38})), &response).ok());
  EXPECT_EQ(response.summary().cached_tokens(), 1000);
  constexpr int kCallers = 48;
  std::vector<std::thread> callers;
  std::atomic<int64_t> cached = 0;
  for (int32_t i = 0; i < kCallers; ++i) {
    callers.emplace_back([&, i] {
      AttendClient client(server.NewChannel());
      v1::AttendResponse answer;
      const grpc::Status status = client.Attend(
          PromptRequest("llama", Join(prefix, {i % 6, i / 6, 1}), v1::LAST_LOGITS), &answer);
      EXPECT_TRUE(status.ok()) << status.error_message();
      cached += answer.summary().cached_tokens() >= 1000 ? 1 : 0;
    });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
  EXPECT_EQ(cached, kCallers) << "the common tokens are never evicted";
}

TEST_F(PrefixTest, AnswersSayWhatWasSaved) {
  const v1::AttendRequest request = PromptRequest("llama", MakePrompt(13, 50));
  Ask(request);
  v1::AttendResponse response;
  ASSERT_TRUE(caching_client_.Attend(request, &response).ok());
  EXPECT_EQ(response.summary().cached_tokens(), 49);
  EXPECT_EQ(response.summary().cached_sequences(), 1);
  EXPECT_GT(response.summary().cached_bytes(), 0);
  InferClient infer(caching_.NewChannel());
  const Ids ids = MakePrompt(13, 50);
  inference::ModelInferRequest same;
  same.set_model_name("llama");
  inference::ModelInferRequest::InferInputTensor& input = *same.add_inputs();
  input.set_name("input_ids");
  input.set_datatype("INT32");
  input.add_shape(1);
  input.add_shape(50);
  same.add_raw_input_contents()->assign(reinterpret_cast<const char*>(ids.data()), 4 * ids.size());
  const auto answer = infer.Infer(same);
  ASSERT_THAT(answer.status(), IsOk());
  EXPECT_EQ(answer->parameters().at("cached_tokens").int64_param(), 49);
  v1::ServerStatistics statistics;
  EXPECT_TRUE(Eventually([&] {  // a request is counted when its answer was sent
    statistics = caching_client_.Statistics();
    return statistics.succeeded() == 3;
  }));
  EXPECT_EQ(statistics.cached_tokens(), 2 * 49);
  ASSERT_EQ(statistics.models_size(), 1);
  EXPECT_EQ(statistics.models(0).cached_tokens(), 2 * 49);
}

TEST_F(PrefixTest, TenantsShareNothing) {
  const v1::AttendRequest request = PromptRequest("llama", MakePrompt(9, 50));
  const auto cached_for = [&](const std::string& tenant) {
    grpc::ClientContext context;
    context.AddMetadata("attend-tenant", tenant);
    v1::AttendResponse response;
    EXPECT_TRUE(caching_client_.stub().Attend(&context, request, &response).ok());
    return response.summary().cached_tokens();
  };
  EXPECT_EQ(cached_for("a"), 0);
  EXPECT_EQ(cached_for("b"), 0);
  EXPECT_EQ(cached_for("a"), 49);
}

TEST_F(PrefixTest, WhatDependsOnMoreThanTheIdsIsComputed) {
  v1::AttendRequest layer = PromptRequest("llama", MakePrompt(10, 20));
  layer.set_layer(0);
  v1::AttendRequest weights = PromptRequest("llama", MakePrompt(10, 20));
  weights.mutable_weights_choice()->add_layers(0);
  const v1::AttendRequest both_ways = PromptRequest("bert", MakePrompt(10, 20));
  const v1::AttendRequest other_rotations = PromptRequest("phi3-longrope", MakePrompt(10, 20));
  for (const v1::AttendRequest& request : {layer, weights, both_ways, other_rotations}) {
    EXPECT_EQ(Ask(request), 0);
    EXPECT_EQ(Ask(request), 0) << request.ShortDebugString();
  }
  const v1::AttendRequest within_the_rotations = PromptRequest("phi3-longrope", MakePrompt(10, 11));
  Ask(within_the_rotations);
  EXPECT_EQ(Ask(within_the_rotations), 10);
}

TEST(Bf16PrefixTest, OneShotRequestsTakePrefixesWhereTheModelComputesInF32) {
  ServerOptions options = CachingOptions();
  options.models.weights_dtype = WeightsDtype::kBf16;
  InProcessServer caching(options);
  options.prefix_cache_bytes = 0;
  InProcessServer plain(options);
  AttendClient caching_client(caching.NewChannel());
  AttendClient plain_client(plain.NewChannel());
  const int64_t cached = ComputeDtype(Dtype::kBf16) == Dtype::kF32 ? 20 : 0;
  const Ids prefix = MakePrompt(3, 20);
  for (const char* model : {"gpt2", "llama", "gemma2", "gpt_neox", "mistral"}) {
    caching_client.Must(PromptRequest(model, prefix));
    int32_t last = 0;
    for (const auto output : {v1::LAST_HIDDEN_STATES, v1::MEAN_POOLED, v1::LAST_LOGITS}) {
      const v1::AttendRequest request = PromptRequest(model, Join(prefix, {++last, 7}), output);
      const v1::AttendResponse response = caching_client.Must(request);
      EXPECT_EQ(response.summary().cached_tokens(), cached) << model;
      EXPECT_TRUE(response.output().data() == plain_client.Must(request).output().data()) << model;
    }
  }
}

TEST_F(PrefixTest, AnotherVersionOfAModelBeginsAnew) {
  const v1::AttendRequest request = PromptRequest("llama", MakePrompt(11, 40));
  Ask(request);
  EXPECT_EQ(Ask(request), 39);
  AdminClient admin(caching_);
  ASSERT_THAT(admin.Unload("llama").status(), IsOk());
  ASSERT_THAT(admin.Load("llama").status(), IsOk());
  EXPECT_EQ(Ask(request), 0);
  EXPECT_EQ(Ask(request), 39);
}

TEST_F(PrefixTest, MetricsCountWhatWasSaved) {
  const v1::AttendRequest request = PromptRequest("llama", MakePrompt(12, 50));
  Ask(request);
  Ask(request);
  const std::string page = HttpGet(caching_.server().metrics_address(), "/metrics");
  for (const char* line :
       {"attend_prefix_cache_hits_total 1", "attend_prefix_cache_misses_total 1",
        "attend_prefix_cache_tokens_total 49", "attend_prefix_cache_evictions_total 0",
        "attend_prefix_cache_limit_bytes 268435456"}) {
    EXPECT_THAT(page, HasSubstr(absl::StrCat("\n", line, "\n")));
  }
  EXPECT_THAT(page, testing::Not(HasSubstr("\nattend_prefix_cache_bytes 0\n")));
}

/// Sessions, by the type of their caches.
class PrefixSessionTest : public PrefixTest, public ::testing::WithParamInterface<v1::DataType> {
 protected:
  static v1::DecodeRequest Open() {
    v1::DecodeRequest open = OpenModel("llama");
    open.mutable_open()->set_cache_dtype(GetParam());
    return open;
  }
};

INSTANTIATE_TEST_SUITE_P(All, PrefixSessionTest, ::testing::Values(v1::FP32, v1::BF16, v1::INT8),
                         [](const auto& test) { return v1::DataType_Name(test.param); });

TEST_P(PrefixSessionTest, PromptsHaveTheSameBitsAndSoHaveTheStepsBehindThem) {
  int32_t seed = 20;
  for (const int64_t length : {1, 64, 65, 512, 2049}) {
    const Ids prefix = MakePrompt(++seed, length);
    for (const auto& [more, cached] :
         {std::pair(Ids{1, 2}, int64_t{0}), std::pair(Ids{3, 4}, length)}) {
      DecodeStream with(caching_.NewChannel());
      DecodeStream without(server_->NewChannel());
      with.Must(Open());
      without.Must(Open());
      const DecodeAnswer prompt = with.Must(TokensStep(Join(prefix, more)));
      EXPECT_EQ(prompt.result.summary().cached_tokens(), cached);
      EXPECT_EQ(prompt.result.length(), length + 2);
      EXPECT_TRUE(prompt.rows == without.Must(TokensStep(Join(prefix, more))).rows) << length;
      for (const v1::DecodeRequest& change : {ForkTo(1), TruncateTo(length)}) {
        with.Must(change);
        without.Must(change);
      }
      for (const int64_t sequence : {0, 1}) {
        const DecodeAnswer step = with.Must(TokensStep({5, 6, 7}), sequence);
        EXPECT_TRUE(step.rows == without.Must(TokensStep({5, 6, 7}), sequence).rows) << length;
        EXPECT_EQ(step.result.summary().cached_tokens(), 0) << "only prompts are looked up";
      }
    }
  }
}

// A sequence that was truncated to nothing takes another prefix; its fork keeps the first one.
TEST_P(PrefixSessionTest, ASecondPromptLeavesTheForkOfTheFirstAlone) {
  DecodeStream with(caching_.NewChannel());
  DecodeStream without(server_->NewChannel());
  const auto both = [&](const v1::DecodeRequest& request, int64_t sequence = 0) {
    const DecodeAnswer answer = with.Must(request, sequence);
    EXPECT_TRUE(answer.rows == without.Must(request, sequence).rows);
    return answer.result.summary().cached_tokens();
  };
  with.Must(Open());
  without.Must(Open());
  const Ids first = MakePrompt(60, 700);
  const Ids second = MakePrompt(61, 600);
  for (const Ids& prefix : {first, second}) {
    EXPECT_EQ(both(TokensStep(Join(prefix, {1}))), 0);
    both(TruncateTo(0));
  }
  EXPECT_EQ(both(TokensStep(Join(first, {2, 3}))), 700);
  both(ForkTo(1));
  both(TruncateTo(0));
  EXPECT_EQ(both(TokensStep(Join(second, {4}))), 600);
  both(TokensStep({5, 6, 7}), 1);
  both(TokensStep({5}));
  both(TruncateTo(650), 1);
  both(TokensStep({8, 9}), 1);
  EXPECT_EQ(both(TokensStep({8}), 0), 0);
}

TEST_P(PrefixSessionTest, SharesWithOneShotRequestsWhatHasTheirBits) {
  const Ids prefix = MakePrompt(30, 100);
  EXPECT_EQ(Ask(PromptRequest("llama", prefix)), 0);
  DecodeStream stream(caching_.NewChannel());
  stream.Must(Open());
  const DecodeAnswer prompt = stream.Must(TokensStep(Join(prefix, {1})));
  EXPECT_EQ(prompt.result.summary().cached_tokens(), GetParam() == v1::FP32 ? 100 : 0);
}

}  // namespace
}  // namespace attention
