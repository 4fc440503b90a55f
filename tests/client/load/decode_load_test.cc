// A load of sessions against a server whose answers are known.
#include "client/load/decode_load.h"

#include <memory>
#include <utility>

#include "client/load/bench.h"
#include "client/load/bench_runner.h"
#include "client/load/report.h"
#include "core/tensor/seeded.h"
#include "gmock/gmock.h"
#include "tests/client/lib/fake_decode_server.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Le;

class DecodeLoadTest : public ::testing::Test {
 protected:
  LoadOptions Options() const {
    return {.connection = {.server = server_.address()},
            .concurrency = 3,
            .connections = 2,
            .warmup = absl::ZeroDuration(),
            .duration = absl::InfiniteDuration(),
            .requests = 40,  // steps
            .timeout = absl::Minutes(2)};
  }

  DecodePlan Plan(const std::string& mode) const {
    AttendRequest like;
    like.model = mode;
    like.input = HiddenStatesInput{&rows_};
    return *DecodePlan::Make(like, {.prefill = 5, .steps = 4, .step_tokens = 2}, 1);
  }

  LoadResult Run(const std::string& mode, const LoadOptions& options) {
    const auto session = EncodeSession(Plan(mode));
    EXPECT_THAT(session, IsOk());
    auto result = RunDecodeLoad(*session, options, {});
    EXPECT_THAT(result, IsOk());
    return *std::move(result);
  }

  const Tensor rows_ = SeededTensor(1, Dtype::kF32, {1, 2, 1});
  FakeDecodeServer server_;
};

TEST_F(DecodeLoadTest, SessionsFollowEachOtherAndStepsAreCounted) {
  const LoadResult result = Run("fake", Options());
  EXPECT_THAT(result.failures, ElementsAre());
  EXPECT_EQ(result.answers, 40);
  EXPECT_GT(result.prefills, 3);
  EXPECT_GT(server_.num_sessions(), 3);
  // Each lane may be within a session at either end of the window.
  EXPECT_THAT(result.answers, AllOf(Ge(4 * (result.prefills - 3)), Le(4 * (result.prefills + 3))));
  EXPECT_EQ(result.latency_ns.count(), result.answers);
  EXPECT_EQ(result.token_ns.count(), result.answers);
  EXPECT_EQ(result.tokens, 2 * result.answers);
  EXPECT_EQ(result.prefill_tokens, 5 * result.prefills);
  EXPECT_EQ(result.first_message_ns.count(), result.prefills);
  EXPECT_EQ(result.phases.compute_ns.count(), result.answers);
  EXPECT_EQ(result.phases.compute_ns.max(), 5);
  EXPECT_EQ(result.phases.queue_ns.max(), 7);
  EXPECT_FALSE(result.gave_up);
}

TEST_F(DecodeLoadTest, SessionsThatWereNotOpenedAreCounted) {
  LoadOptions options = Options();
  options.requests = 0;
  options.duration = absl::Milliseconds(300);
  const auto session = EncodeSession([&] {
    AttendRequest like;
    like.model = "pairs";
    like.input = HiddenStatesInput{&rows_};
    return *DecodePlan::Make(like, {.prefill = 5, .steps = 1'000'000, .step_tokens = 2}, 1);
  }());
  ASSERT_THAT(session, IsOk());
  for (const int64_t requests : {int64_t{0}, int64_t{1} << 40}) {  // more than the time allows
    options.requests = requests;
    const auto result = RunDecodeLoad(*session, options, {});
    ASSERT_THAT(result, IsOk());
    ASSERT_THAT(result->failures, ElementsAre(Key(kNotSent))) << requests;
    EXPECT_GE(result->failures.at(kNotSent).count, 1) << "all three on a machine that stalls";
    EXPECT_THAT(result->failures.at(kNotSent).first_text,
                HasSubstr("of 3 sessions were not opened before the load ended"));
  }
}

TEST_F(DecodeLoadTest, PromptsAndStepsHaveRecords) {
  LoadOptions options = Options();
  options.keeps_records = true;
  const LoadResult result = Run("fake", options);
  int64_t prompts = 0, steps = 0;
  for (const CallRecord& record : result.records) {
    (record.is_prompt ? prompts : steps) += record.is_measured ? 1 : 0;
    EXPECT_EQ(record.tokens, record.is_prompt ? 5 : 2);
    EXPECT_EQ(record.compute_ns, record.is_prompt ? 0 : 5);
  }
  EXPECT_EQ(prompts, result.prefills);
  EXPECT_GT(prompts, 0);
  EXPECT_EQ(steps, 40);
}

TEST_F(DecodeLoadTest, SamplesAreKeptWhole) {
  LoadOptions options = Options();
  options.num_samples = 5;
  const LoadResult sampled = Run("fake", options);
  EXPECT_EQ(sampled.samples.size(), 5u);
  for (const LoadSample& sample : sampled.samples) {
    EXPECT_LE(sample.kind, 4u);
    // Two blocks of rows, and the result.
    EXPECT_EQ(sample.messages.size(), 3u);
  }
}

TEST_F(DecodeLoadTest, GivesUpWhenNothingButErrorsCome) {
  LoadOptions options = Options();
  options.requests = 1'000'000'000;
  options.patience = absl::Milliseconds(100);
  const struct {
    const char* mode;
    const char* code;
    const char* text;
  } cases[] = {{"refuses", "RESOURCE_EXHAUSTED", "cache: full"},
               {"breaks", "UNAVAILABLE", "going away"},
               {"ends", "INTERNAL", "before its last answer"}};
  for (const auto& [mode, code, text] : cases) {
    const LoadResult result = Run(mode, options);
    EXPECT_TRUE(result.gave_up) << mode;
    EXPECT_LT(result.window, absl::Hours(1)) << mode;
    EXPECT_EQ(result.answers, 0);
    ASSERT_THAT(result.failures, ElementsAre(Key(code)));
    EXPECT_GE(result.failures.at(code).count, 200);
    EXPECT_THAT(result.failures.at(code).first_text, HasSubstr(text));
  }
}

TEST_F(DecodeLoadTest, ASessionWithoutAnswersEndsAtItsDeadline) {
  LoadOptions options = Options();
  options.concurrency = 1;
  options.requests = 1;
  options.timeout = absl::Milliseconds(100);  // for each of 6 actions
  const LoadResult result = Run("silent", options);
  EXPECT_EQ(result.answers, 0);
  EXPECT_THAT(result.failures, ElementsAre(Key("DEADLINE_EXCEEDED")));
  EXPECT_EQ(result.failures.at("DEADLINE_EXCEEDED").count, 1);
}

TEST_F(DecodeLoadTest, ABenchReportsTokensAndTimes) {
  const auto client = AttentionClient::Connect({.connection = {.server = server_.address()}});
  LoadOptions options = Options();
  options.num_samples = 3;
  const DecodePlan plan = Plan("fake");
  const auto runner = MakeDecodeRunner(**client, plan, options);
  ASSERT_THAT(runner, IsOk());
  const auto report = RunBench(**runner, {.options = options}, {});
  ASSERT_THAT(report, IsOk());
  EXPECT_TRUE(Succeeded(*report)) << ToText(*report);
  const LoadVerification& verification = *report->levels[0].verification;
  EXPECT_FALSE(verification.reference.has_value());
  EXPECT_EQ(verification.sampled, 3);
  EXPECT_EQ(verification.identical, verification.sampled);
  EXPECT_THAT(
      ToText(*report),
      AllOf(HasSubstr("fake, 4 steps of 2 after prompts of 5, each of hidden states [2, 1] FP32"),
            HasSubstr("3 sessions, on 2 connections"), HasSubstr(" steps/s "),
            HasSubstr("\nfirst token ")));
  const nlohmann::json json = ToJson(*report);
  EXPECT_EQ(json["options"]["decode"]["prefill"], 5);
  EXPECT_DOUBLE_EQ(json["tokens_per_s"], 2 * json["requests_per_s"].get<double>());
  EXPECT_EQ(json["latency_ms"]["count"], json["answers"]);
}

TEST(DecodePlanTest, AllAtOnceIsThePromptAndThenTheSteps) {
  const Tensor rows = SeededTensor(1, Dtype::kBf16, {2, 7, 3});
  AttendRequest like;
  like.model = "m";
  like.layer = 2;
  like.input = HiddenStatesInput{&rows};
  const auto plan = DecodePlan::Make(like, {.prefill = 4, .steps = 2, .step_tokens = 1}, 9);
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->open().model(), "m");
  EXPECT_EQ(plan->open().layer(), 2);
  const StepRequest prefill = plan->Prefill(), step = plan->Step(0), last = plan->Step(1);
  const Tensor& first = *std::get<HiddenStatesInput>(prefill.input).tensor;
  const Tensor& next = *std::get<HiddenStatesInput>(step.input).tensor;
  const Tensor& second = *std::get<HiddenStatesInput>(last.input).tensor;
  EXPECT_THAT(first.shape(), ElementsAre(4, 3));
  EXPECT_THAT(next.shape(), ElementsAre(1, 3));
  EXPECT_EQ(next.dtype(), Dtype::kBf16);
  const Workload all = plan->AtOnce();
  const Tensor& joined = *std::get<HiddenStatesInput>(all.request.input).tensor;
  EXPECT_THAT(joined.shape(), ElementsAre(6, 3));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(joined.as<Bf16>()[3 * 3 + i].bits, first.as<Bf16>()[3 * 3 + i].bits);
    EXPECT_EQ(joined.as<Bf16>()[4 * 3 + i].bits, next.as<Bf16>()[i].bits);
    EXPECT_EQ(joined.as<Bf16>()[5 * 3 + i].bits, second.as<Bf16>()[i].bits);
    EXPECT_NE(second.as<Bf16>()[i].bits, next.as<Bf16>()[i].bits);
  }
  EXPECT_TRUE(all.request.options.causal());
  EXPECT_EQ(all.request.layer, 2);
}

TEST(DecodePlanTest, TokensComeAgainAfterManySteps) {
  AttendRequest like;
  like.input = TokenIdsInput{{7, 8, 9}};
  const int64_t steps = DecodePlan::kDifferentSteps + 3;
  const auto plan = DecodePlan::Make(like, {.prefill = 2, .steps = steps, .step_tokens = 1}, 9);
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->num_different_steps(), DecodePlan::kDifferentSteps);
  const auto ids = [](const StepRequest& step) { return std::get<TokenIdsInput>(step.input).ids; };
  EXPECT_THAT(ids(plan->Step(0)), ElementsAre(9));
  EXPECT_THAT(ids(plan->Step(1)), ElementsAre(7));
  EXPECT_EQ(ids(plan->Step(steps - 1)), ids(plan->Step(2)));
  const Workload all = plan->AtOnce();
  EXPECT_EQ(std::ssize(std::get<TokenIdsInput>(all.request.input).ids), 2 + steps);
}

TEST(DecodePlanTest, HeadsAreThoseOfQueryKeyAndValue) {
  const Tensor query = SeededTensor(1, Dtype::kF32, {1, 2, 8, 16}),
               key = SeededTensor(2, Dtype::kF32, {1, 2, 4, 16}),
               value = SeededTensor(3, Dtype::kF32, {1, 2, 4, 32});
  AttendRequest like;
  like.input = QueryKeyValueInput{&query, &key, &value};
  like.options.set_window(64);
  const auto plan = DecodePlan::Make(like, {.prefill = 4, .steps = 2, .step_tokens = 1}, 9);
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->open().heads().num_heads(), 8);
  EXPECT_EQ(plan->open().heads().num_kv_heads(), 4);
  EXPECT_EQ(plan->open().heads().head_dim(), 16);
  EXPECT_EQ(plan->open().heads().value_head_dim(), 32);
  EXPECT_EQ(plan->open().heads().dtype(), v1::FP32);
  EXPECT_EQ(plan->open().options().window(), 64);
  const StepRequest step = plan->Step(0);
  EXPECT_THAT(std::get<QueryKeyValueInput>(step.input).value->shape(), ElementsAre(1, 4, 32));
  EXPECT_EQ(plan->Describe(),
            "2 steps of 1 after prompts of 4, each of query [1, 8, 16] key [1, 4, 16] value [1, 4, "
            "32] FP32, window: 64");
}

TEST(DecodePlanTest, TokenIdsAreThoseOfTheRequestOverAndOver) {
  AttendRequest like;
  like.model = "m";
  like.input = TokenIdsInput{{7, 8, 9}, {}, {}};
  const auto plan = DecodePlan::Make(like, {.prefill = 5, .steps = 2, .step_tokens = 1}, 9);
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(std::get<TokenIdsInput>(plan->Prefill().input).ids, ElementsAre(7, 8, 9, 7, 8));
  EXPECT_THAT(std::get<TokenIdsInput>(plan->AtOnce().request.input).ids,
              ElementsAre(7, 8, 9, 7, 8, 9, 7));
}

TEST(DecodePlanTest, RefusesWhatASessionDoesNotTake) {
  AttendRequest text;
  text.input = TextInput{{"a"}};
  EXPECT_THAT(DecodePlan::Make(text, {}, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("found another input")));
  const Tensor rows = SeededTensor(1, Dtype::kF32, {1, 2, 1});
  AttendRequest with_bias;
  with_bias.input = HiddenStatesInput{&rows};
  with_bias.bias = &rows;
  EXPECT_THAT(DecodePlan::Make(with_bias, {}, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no bias")));
}

}  // namespace
}  // namespace attention
