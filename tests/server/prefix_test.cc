// The prefix cache behind the wire: the same bits as without it, and who takes from it.
#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "server/sessions/session.h"
#include "tests/server/decode/decode_stream.h"
#include "tests/server/models/admin_client.h"
#include "tests/server/models/golden_server.h"
#include "tests/server/observability/http_client.h"
#include "tests/server/open_inference/infer_client.h"
#include "tests/server/token_ids.h"
#include "tests/support/eventually.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::HasSubstr;

constexpr int32_t kVocabulary = 40;  // at most that of the models here

/// `count` ids that differ from those of another seed at once.
Ids MakeIds(int32_t seed, int64_t count) {
  Ids ids(count);
  for (int64_t i = 0; i < count; ++i) {
    ids[i] = static_cast<int32_t>((i * i + seed * (i + 1)) % kVocabulary);
  }
  return ids;
}

v1::AttendRequest Request(const std::string& model, const Ids& ids,
                          v1::ModelOutput output = v1::LAST_HIDDEN_STATES) {
  v1::AttendRequest request = TokenRequest(model, ids, std::ssize(ids));
  request.set_model_output(output);
  return request;
}

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
    const Ids prefix = MakeIds(++seed, length);
    EXPECT_EQ(Ask(Request("llama", Join(prefix, {1, 2, 3}))), 0) << length;
    EXPECT_EQ(Ask(Request("llama", Join(prefix, {4, 5}))), length);
    EXPECT_EQ(Ask(Request("llama", Join(prefix, {4, 5, 6, 7}))), length + 2);
    EXPECT_EQ(Ask(Request("llama", prefix)), length - 1) << "the last row is computed";
  }
}

TEST_F(PrefixTest, EveryOutputHasTheSameBits) {
  for (const char* model : {"gpt2", "llama", "gemma2", "gpt_neox", "mistral"}) {
    const Ids prefix = MakeIds(3, 20);
    EXPECT_EQ(Ask(Request(model, prefix)), 0) << model;
    int32_t last = 0;
    for (const auto output :
         {v1::LAST_HIDDEN_STATES, v1::MEAN_POOLED, v1::CLS_POOLED, v1::LOGITS, v1::LAST_LOGITS}) {
      EXPECT_EQ(Ask(Request(model, Join(prefix, {++last, 7}), output)), 20)
          << model << " " << v1::ModelOutput_Name(output);
    }
  }
}

TEST_F(PrefixTest, SequencesOfOneRequestTakeWhatEachHas) {
  const Ids prefix = MakeIds(5, 30);
  const Ids other = MakeIds(6, 32);
  Ask(Request("llama", prefix));
  v1::AttendRequest request = Request("llama", Join(Join(prefix, {1, 2}), other));
  request.mutable_token_ids()->clear_lengths();
  for (const int64_t length : {32, 0, 32}) {
    request.mutable_token_ids()->add_lengths(length);
  }
  EXPECT_EQ(Ask(request), 30);
  EXPECT_EQ(Ask(request), 31 + 31);
}

TEST_F(PrefixTest, StreamsSendTheSameRows) {
  const Ids prefix = MakeIds(7, 600);
  Ask(Request("llama", prefix));
  const v1::AttendRequest request = Request("llama", Join(prefix, {1, 2, 3}));
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
  const Ids prefix = MakeIds(8, 700);
  constexpr int kCallers = 4;
  std::vector<std::string> outputs(kCallers);
  for (int round = 0; round < 2; ++round) {
    std::vector<std::thread> callers;
    for (int i = 0; i < kCallers; ++i) {
      callers.emplace_back([&, i] {
        AttendClient client(caching_.NewChannel());
        v1::AttendResponse response;
        EXPECT_TRUE(client.Attend(Request("llama", Join(prefix, {i})), &response).ok());
        outputs[i] = response.output().data();
      });
    }
    for (std::thread& caller : callers) {
      caller.join();
    }
    for (int i = 0; i < kCallers; ++i) {
      EXPECT_TRUE(outputs[i] == Attend(Request("llama", Join(prefix, {i}))).output().data());
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
  const Ids prefix = MakeIds(8, 1000);
  AttendClient first(server.NewChannel());
  v1::AttendResponse response;
  ASSERT_TRUE(first.Attend(Request("llama", Join(prefix, {39, 39})), &response).ok());
  ASSERT_TRUE(first.Attend(Request("llama", Join(prefix, {38, 38})), &response).ok());
  EXPECT_EQ(response.summary().cached_tokens(), 1000);
  constexpr int kCallers = 48;
  std::vector<std::thread> callers;
  std::atomic<int64_t> cached = 0;
  for (int32_t i = 0; i < kCallers; ++i) {
    callers.emplace_back([&, i] {
      AttendClient client(server.NewChannel());
      v1::AttendResponse answer;
      const grpc::Status status = client.Attend(
          Request("llama", Join(prefix, {i % 6, i / 6, 1}), v1::LAST_LOGITS), &answer);
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
  const v1::AttendRequest request = Request("llama", MakeIds(13, 50));
  Ask(request);
  v1::AttendResponse response;
  ASSERT_TRUE(caching_client_.Attend(request, &response).ok());
  EXPECT_EQ(response.summary().cached_tokens(), 49);
  EXPECT_EQ(response.summary().cached_sequences(), 1);
  EXPECT_GT(response.summary().cached_bytes(), 0);
  InferClient infer(caching_.NewChannel());
  const Ids ids = MakeIds(13, 50);
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
  const v1::AttendRequest request = Request("llama", MakeIds(9, 50));
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
  v1::AttendRequest layer = Request("llama", MakeIds(10, 20));
  layer.set_layer(0);
  v1::AttendRequest weights = Request("llama", MakeIds(10, 20));
  weights.mutable_weights_choice()->add_layers(0);
  const v1::AttendRequest both_ways = Request("bert", MakeIds(10, 20));
  const v1::AttendRequest other_rotations = Request("phi3-longrope", MakeIds(10, 20));
  for (const v1::AttendRequest& request : {layer, weights, both_ways, other_rotations}) {
    EXPECT_EQ(Ask(request), 0);
    EXPECT_EQ(Ask(request), 0) << request.ShortDebugString();
  }
  const v1::AttendRequest within_the_rotations = Request("phi3-longrope", MakeIds(10, 11));
  Ask(within_the_rotations);
  EXPECT_EQ(Ask(within_the_rotations), 10);
}

TEST_F(PrefixTest, AnotherVersionOfAModelBeginsAnew) {
  const v1::AttendRequest request = Request("llama", MakeIds(11, 40));
  Ask(request);
  EXPECT_EQ(Ask(request), 39);
  AdminClient admin(caching_);
  ASSERT_THAT(admin.Unload("llama").status(), IsOk());
  ASSERT_THAT(admin.Load("llama").status(), IsOk());
  EXPECT_EQ(Ask(request), 0);
  EXPECT_EQ(Ask(request), 39);
}

TEST_F(PrefixTest, MetricsCountWhatWasSaved) {
  const v1::AttendRequest request = Request("llama", MakeIds(12, 50));
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
    const Ids prefix = MakeIds(++seed, length);
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

TEST_P(PrefixSessionTest, SharesWithOneShotRequestsWhatHasTheirBits) {
  const Ids prefix = MakeIds(30, 100);
  EXPECT_EQ(Ask(Request("llama", prefix)), 0);
  DecodeStream stream(caching_.NewChannel());
  stream.Must(Open());
  const DecodeAnswer prompt = stream.Must(TokensStep(Join(prefix, {1})));
  EXPECT_EQ(prompt.result.summary().cached_tokens(), GetParam() == v1::FP32 ? 100 : 0);
}

TEST(PrefixMemoryTest, PrefixesGiveWayToSessions) {
  ServerOptions options = ServerOptionsFor(kCheckpoints);
  options.max_cache_bytes = 8 << 20;
  options.prefix_cache_bytes = 8 << 20;
  InProcessServer server(options);
  AttendClient client(server.NewChannel());
  for (int32_t seed = 1; seed < 30; ++seed) {
    v1::AttendResponse response;
    ASSERT_TRUE(client.Attend(Request("llama", MakeIds(seed, 500)), &response).ok());
  }
  DecodeStream stream(server.NewChannel());
  stream.Must(OpenModel("llama"));
  for (int i = 0; i < 12; ++i) {
    stream.Must(TokensStep(MakeIds(40 + i, 500)));
  }
}

/// One page of each of the model's two layers for three prompts, and one page more: a prompt that
/// continues the last one must evict another, after one of its layers has found room.
TEST(PrefixMemoryTest, APromptKeepsItsPrefixWhileOthersAreEvicted) {
  ServerOptions options = ServerOptionsFor(kCheckpoints);
  InProcessServer without(options);
  options.max_cache_bytes = options.prefix_cache_bytes = 1 << 20;
  InProcessServer with(options);
  AttendClient client(with.NewChannel());
  AttendClient expected_client(without.NewChannel());
  v1::AttendResponse response;
  for (int32_t seed = 1; seed <= 3; ++seed) {
    ASSERT_TRUE(client.Attend(Request("llama", MakeIds(seed, 500)), &response).ok());
  }
  v1::DecodeRequest prompt = TokensStep(Join(MakeIds(3, 500), {1, 2}));
  prompt.mutable_step()->set_top_logits(5);
  v1::DecodeRequest next = TokensStep({3});
  next.mutable_step()->set_top_logits(5);
  DecodeStream stream(with.NewChannel());
  DecodeStream expected_stream(without.NewChannel());
  stream.Must(OpenModel("llama"));
  expected_stream.Must(OpenModel("llama"));
  for (const v1::DecodeRequest& step : {prompt, next}) {
    const v1::DecodeResult result = stream.Must(step).result;
    const v1::DecodeResult expected = expected_stream.Must(step).result;
    EXPECT_EQ(result.length(), expected.length());
    EXPECT_EQ(result.top_logits().SerializeAsString(), expected.top_logits().SerializeAsString());
  }
  for (const Ids& ids : {Join(MakeIds(3, 500), {9}), Join(MakeIds(3, 500), {1, 2, 4})}) {
    v1::AttendResponse expected;
    ASSERT_TRUE(client.Attend(Request("llama", ids), &response).ok());
    ASSERT_TRUE(expected_client.Attend(Request("llama", ids), &expected).ok());
    EXPECT_TRUE(response.output().data() == expected.output().data());
  }
}

/// Forks sequence 0 of a session until it is refused. Returns the number of forks.
int64_t ForkUntilRefused(DecodeStream& stream) {
  int64_t forks = 0;
  while (forks < Session::kMaxSequences - 1 && stream.Do(ForkTo(forks + 1)).result.code() == 0) {
    ++forks;
  }
  EXPECT_LT(forks, Session::kMaxSequences - 1);
  return forks;
}

TEST(PrefixMemoryTest, APromptNeedsNoPrefixWhereItsTablesHaveNoRoom) {
  ServerOptions options = ServerOptionsFor(kCheckpoints);
  options.max_cache_bytes = options.prefix_cache_bytes = 16 << 20;
  InProcessServer server(options);
  AttendClient client(server.NewChannel());
  v1::AttendResponse response;
  const Ids prefix = MakeIds(1, 1000);
  ASSERT_TRUE(client.Attend(Request("llama", prefix), &response).ok());
  // Large tables leave room for less than 48 KiB, and empty ones for less than the prefix needs.
  constexpr int64_t kLargeHeads = 1024;
  DecodeStream large(server.NewChannel());
  large.Must(OpenHeads(kLargeHeads, kLargeHeads, 1));
  const Tensor row = SeededTensor(1, Dtype::kF32, {1, kLargeHeads, 1});
  v1::DecodeRequest step;
  *step.mutable_step()->mutable_query_key_value() = QkvRequest(row, row, row).query_key_value();
  large.Must(step);
  DecodeStream stream(server.NewChannel());
  stream.Must(OpenModel("llama"));
  const int64_t large_forks = ForkUntilRefused(large);
  ForkUntilRefused(stream);
  const DecodeAnswer without = stream.Must(TokensStep(Join(prefix, {1})));
  EXPECT_EQ(without.result.summary().cached_tokens(), 0);
  large.Must(Release(), large_forks);
  const DecodeAnswer with = stream.Must(TokensStep(Join(prefix, {1})), 1);
  EXPECT_EQ(with.result.summary().cached_tokens(), 1000);
  EXPECT_TRUE(with.rows == without.rows);
}

}  // namespace
}  // namespace attention
