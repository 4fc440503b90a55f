// What loops of both kinds do.
#include <atomic>
#include <cmath>
#include <optional>
#include <utility>

#include "tests/client/load/load_generator_fixture.h"
#include "tests/support/eventually.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Le;

TEST_F(LoadGeneratorTest, AnswersAreCountedSampledAndChecked) {
  LoadOptions options = Options();
  options.duration = absl::InfiniteDuration();
  options.requests = 20;
  for (const bool is_streaming : {false, true}) {
    const auto report = Run(is_streaming, options);
    ASSERT_THAT(report, IsOk());
    EXPECT_TRUE(Succeeded(*report)) << ToText(*report);
    const LoadResult& result = report->levels[0].result;
    EXPECT_GT(result.answers, 3);
    EXPECT_EQ(result.latency_ns.count(), result.answers);
    EXPECT_EQ(result.first_message_ns.count(), is_streaming ? result.latency_ns.count() : 0);
    EXPECT_GE(result.answered_bytes,
              result.latency_ns.count() * static_cast<int64_t>(rows_.size_bytes()));
    EXPECT_EQ(result.accounts, result.answers);
    EXPECT_EQ(result.phases.compute_ns.count(), result.answers);
    EXPECT_GT(result.phases.compute_ns.min(), 0);
    EXPECT_GE(result.batch_requests, result.answers);
    EXPECT_EQ(result.message_gap_ns.count() > 0, is_streaming);
    EXPECT_EQ(result.token_ns.count(), is_streaming ? result.answers : 0);
    EXPECT_EQ(result.tokens, 10 * result.answers);
    EXPECT_FALSE(result.pace.has_value());
    const std::optional<LoadVerification>& verification = report->levels[0].verification;
    ASSERT_TRUE(verification.has_value());
    EXPECT_TRUE(verification->reference.has_value());
    EXPECT_THAT(verification->sampled, AllOf(Ge(1), Le(3)));
    EXPECT_EQ(verification->identical, verification->sampled);
  }
}

TEST_F(LoadGeneratorTest, GivesUpWhenNothingButErrorsCome) {
  request_.model = "absent";
  for (const bool is_streaming : {false, true}) {
    LoadOptions options = Options();
    options.duration = absl::Seconds(60);
    options.patience = absl::Milliseconds(100);
    const LoadResult result = Send(is_streaming, options);
    EXPECT_TRUE(result.gave_up);
    EXPECT_LT(result.window, options.duration);
    EXPECT_EQ(result.answers, 0);
    ASSERT_THAT(result.failures, ElementsAre(Key("NOT_FOUND")));
    const FailureTally& failure = result.failures.at("NOT_FOUND");
    EXPECT_GE(failure.count, 200);
    EXPECT_THAT(failure.first_text, HasSubstr("\"absent\""));
  }
}

TEST_F(LoadGeneratorTest, TheOpenInferenceProtocolIsCheckedAsTheNativeOneIs) {
  const Tensor query = SeededTensor(1, Dtype::kF32, {1, 3, 4, 8}),
               key = SeededTensor(2, Dtype::kF32, {1, 5, 2, 8});
  AttendRequest tokens = request_, bare;
  tokens.input = TokenIdsInput{{3, 1, 4, 1, 5, 9}, {3, 3}, {}};
  tokens.options.set_causal(true);
  bare.input = QueryKeyValueInput{&query, &key, &key};
  bare.options.set_window(2);
  for (const AttendRequest& request : {request_, tokens, bare}) {
    request_ = request;
    const auto report =
        Run(Mix(), OpenInferenceProtocol(), ScheduleOptions(std::chrono::milliseconds(1)));
    ASSERT_THAT(report, IsOk());
    EXPECT_TRUE(Succeeded(*report)) << ToText(*report);
    EXPECT_EQ(report->levels[0].result.accounts, 0);
    ASSERT_TRUE(report->levels[0].verification.has_value());
    EXPECT_TRUE(report->levels[0].verification->reference.has_value());
    EXPECT_EQ(report->levels[0].verification->sampled, 3);
  }
}

TEST_F(LoadGeneratorTest, LengthsAreMixedAndCheckedEach) {
  for (const bool is_open : {false, true}) {
    Workload longest;
    longest.request = request_;
    const auto mix = RequestMix::OfLengths(
        std::move(longest), {"uniform:1..5", {1, 2, 3, 4, 5}, {1.0, 1.0, 1.0, 1.0, 1.0}});
    ASSERT_THAT(mix, IsOk());
    const auto report =
        Run(*mix, NativeProtocol(false),
            is_open ? ScheduleOptions(std::chrono::milliseconds(1)) : CountedOptions());
    ASSERT_THAT(report, IsOk());
    EXPECT_TRUE(Succeeded(*report)) << ToText(*report);
    EXPECT_EQ(report->subject.lengths, "uniform:1..5");
    const BenchLevel& level = report->levels[0];
    EXPECT_GT(level.result.tokens, 2 * level.result.answers);
    EXPECT_LT(level.result.tokens, 10 * level.result.answers);
    EXPECT_GE(level.verification->sampled, 1);
  }
}

TEST_F(LoadGeneratorTest, SamplesThatCannotBeComparedDoNotLoseTheResult) {
  auto other = std::make_unique<InProcessServer>(ServerOptions{.threads = 1});
  const auto client = AttentionClient::Connect(
      {.connection = {.server = other->address(), .retries = false}, .timeout = absl::Minutes(2)});
  ASSERT_THAT(client, IsOk());
  Workload longest;
  longest.request = request_;
  const auto mix = RequestMix::OfLengths(
      std::move(longest), {"uniform:1..5", {1, 2, 3, 4, 5}, {1.0, 1.0, 1.0, 1.0, 1.0}});
  ASSERT_THAT(mix, IsOk());
  LoadOptions options = CountedOptions();
  options.requests = 20;
  options.num_samples = 10;
  const NativeProtocol protocol(false);
  const auto runner = MakeRequestRunner(**client, *mix, protocol, options);
  ASSERT_THAT(runner, IsOk());
  other.reset();
  const auto report = RunBench(**runner, {.options = options}, {});
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->levels[0].result.answers, 20);
  const LoadVerification& verification = *report->levels[0].verification;
  EXPECT_GT(verification.unchecked, 0);
  EXPECT_GT(verification.sampled, 0);  // of the kind that was asked for before
  EXPECT_EQ(verification.identical, verification.sampled);
  EXPECT_FALSE(Succeeded(*report));
  EXPECT_THAT(ToText(*report), HasSubstr(" could NOT BE CHECKED: UNAVAILABLE: "));
}

TEST_F(LoadGeneratorTest, AFirstRequestThatFailsEndsTheRun) {
  request_.model = "absent";
  EXPECT_THAT(Run(false, Options()),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("\"absent\"")));
}

TEST_F(LoadGeneratorTest, AClosedLoopEndsAfterSoManyRequests) {
  LoadOptions options = Options();
  options.duration = absl::InfiniteDuration();
  for (const absl::Duration warmup : {absl::ZeroDuration(), absl::Milliseconds(20)}) {
    options.warmup = warmup;
    for (const int64_t requests : {1, 2, 50}) {
      options.requests = requests;
      const LoadResult result = Send(/*is_streaming=*/false, options);
      EXPECT_EQ(result.answers, requests) << warmup;
      EXPECT_EQ(result.latency_ns.count(), requests);
      EXPECT_GT(result.window, absl::ZeroDuration());
    }
  }
}

TEST_F(LoadGeneratorTest, WhoStopsALoadGetsWhatItCounted) {
  for (const bool is_open : {false, true}) {
    LoadOptions options = is_open ? OpenOptions() : Options();
    options.duration = absl::Minutes(10);
    std::atomic<bool> stop = false;
    int64_t told = 0, answers = 0;
    control_.stop = &stop;
    control_.on_progress = [&](const LoadProgress& progress) {
      ++told;
      answers += progress.answers_per_s > 0.0 ? 1 : 0;
      stop = told > 1 && answers > 1;
      EXPECT_EQ(progress.errors, 0);
    };
    const LoadResult result = Send(/*is_streaming=*/false, options);
    EXPECT_TRUE(result.was_stopped);
    EXPECT_GT(told, 1);
    EXPECT_GT(result.answers, 1);
    EXPECT_LT(result.window, options.duration);
    EXPECT_EQ(result.latency_ns.count(), is_open ? result.pace->due : result.answers);
    EXPECT_TRUE(result.failures.empty());
  }
}

TEST_F(LoadGeneratorTest, ALoadThatSettlesEndsAndOneThatCannotUsesAllItsTrials) {
  for (const bool is_open : {false, true}) {
    LoadOptions options = is_open ? OpenOptions() : Options();
    options.duration = absl::Milliseconds(100);
    EXPECT_TRUE(Eventually([&] {
      options.duration *= 2;  // until there is an answer in each trial
      options.stability = StabilityRule{.percentage = 100'000.0, .max_trials = 40};
      const LoadResult settled = Send(/*is_streaming=*/false, options);
      EXPECT_GE(settled.window, 3 * options.duration);
      EXPECT_FALSE(settled.was_stopped);
      return settled.window < 40 * options.duration;
    }));
    options.duration = absl::Milliseconds(200);
    options.stability = StabilityRule{.percentage = 1e-9, .max_trials = 4};
    EXPECT_EQ(Send(/*is_streaming=*/false, options).window, absl::Milliseconds(800));
    // A trial has whole slices, also where a round length of a slice does not divide it.
    options.duration = absl::Milliseconds(75);
    const double slices =
        absl::FDivDuration(options.duration, Send(/*is_streaming=*/false, options).series.slice());
    EXPECT_NEAR(slices, std::round(slices), 1e-3);
  }
}

}  // namespace
}  // namespace attention
