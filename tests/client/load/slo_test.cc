// Targets of a load, and the calls that were in flight when its window ended.
#include "client/load/slo.h"

#include <chrono>

#include "client/load/recorder.h"
#include "client/load/stability.h"
#include "gmock/gmock.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::HasSubstr;

LoadResult Latencies(int count) {
  LoadResult result;
  for (int ms = 1; ms <= count; ++ms) {
    result.latency_ns.Record(int64_t{1'000'000} * ms);
  }
  return result;
}

TEST(SloTest, TargetsAreReadAsTheyAreWritten) {
  const auto p = ParseSlo("p99.9=1.5s");
  ASSERT_THAT(p, IsOk());
  EXPECT_EQ(p->of, SloTarget::Of::kPercentile);
  EXPECT_EQ(p->percent, 99.9);
  EXPECT_EQ(p->limit, 1500.0);
  EXPECT_EQ(ParseSlo("avg=2ms")->of, SloTarget::Of::kMean);
  EXPECT_EQ(ParseSlo("max=2ms")->of, SloTarget::Of::kMax);
  EXPECT_DOUBLE_EQ(ParseSlo("errors=0.1%")->limit, 0.001);
  EXPECT_DOUBLE_EQ(ParseSlo("errors=0.25")->limit, 0.25);
  for (const char* text :
       {"", "p99", "p0=1ms", "p101=1ms", "px=1ms", "p99=fast", "p99=inf", "p99=0ms", "p99=-1s",
        "errors=2", "errors=-1%", "errors=nan", "speed=1ms"}) {
    EXPECT_THAT(ParseSlo(text), StatusIs(absl::StatusCode::kInvalidArgument,
                                         HasSubstr("expected a target such as p99=50ms")))
        << text;
  }
}

TEST(SloTest, ATargetIsMetUpToItsLimit) {
  const LoadResult result = Latencies(100);
  EXPECT_TRUE(CheckSlo(*ParseSlo("max=100ms"), result).is_met);
  EXPECT_FALSE(CheckSlo(*ParseSlo("max=99ms"), result).is_met);
  EXPECT_TRUE(CheckSlo(*ParseSlo("mean=50.5ms"), result).is_met);
  EXPECT_FALSE(CheckSlo(*ParseSlo("mean=50ms"), result).is_met);
  EXPECT_TRUE(CheckSlo(*ParseSlo("p50=51ms"), result).is_met);
  EXPECT_FALSE(CheckSlo(*ParseSlo("p50=49ms"), result).is_met);
  EXPECT_FALSE(CheckSlo(*ParseSlo("p50=1h"), LoadResult()).is_met) << "without answers";
}

TEST(SloTest, WhatIsMissingIsSaid) {
  EXPECT_THAT(ParseSlo("p99=5"), StatusIs(absl::StatusCode::kInvalidArgument,
                                          HasSubstr("errors=0.1%, found a time without a unit")));
  EXPECT_THAT(ParseSlo("errors=5"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("found a share without % that is not within 0 and 1")));
}

TEST(SloTest, APercentileOfTooFewAnswersIsJudgedByTheLargest) {
  const SloCheck few = CheckSlo(*ParseSlo("p50=20ms"), Latencies(1));
  EXPECT_TRUE(few.is_largest);
  EXPECT_EQ(few.measured, CheckSlo(*ParseSlo("max=20ms"), Latencies(1)).measured);
  const SloCheck twenty = CheckSlo(*ParseSlo("p99.99=1h"), Latencies(20));
  EXPECT_TRUE(twenty.is_met);
  EXPECT_TRUE(twenty.is_largest);
  EXPECT_FALSE(CheckSlo(*ParseSlo("p99.99=19ms"), Latencies(20)).is_met);
  EXPECT_FALSE(CheckSlo(*ParseSlo("p99=1h"), Latencies(100)).is_largest);
  EXPECT_FALSE(CheckSlo(*ParseSlo("p100=20ms"), Latencies(20)).is_largest);
  EXPECT_EQ(CheckSlo(*ParseSlo("mean=1h"), LoadResult()).measured, std::nullopt);
  EXPECT_EQ(CheckSlo(*ParseSlo("max=1h"), LoadResult()).measured, std::nullopt);
}

// Calls that hang end after the window, at their timeout, and must not be missed.
TEST(SloTest, FailuresCountThatBeganInTheWindowAndEndedAfterIt) {
  const auto start = std::chrono::steady_clock::now();
  const std::chrono::seconds second(1);
  LoadOptions options;
  const LoadControl control;
  MeasuredWindow window(start, start + second);
  Recorder recorder(options, control, window);
  const absl::Status late = absl::DeadlineExceededError("hung");
  recorder.CountFailure(late, start + second / 2, start + second / 2, start + 30 * second);
  recorder.CountFailure(late, start - second, start - second, start + second / 2);
  recorder.CountFailure(late, start - 2 * second, start - 2 * second,
                        start - second);  // in the warm-up
  recorder.CountFailure(late, start + second, start + second,
                        start + 30 * second);  // behind the window
  LoadResult result = recorder.Finish();
  EXPECT_EQ(result.failures["DEADLINE_EXCEEDED"].count, 4);
  EXPECT_EQ(result.failures["DEADLINE_EXCEEDED"].in_window, 2);
  EXPECT_EQ(CheckSlo(*ParseSlo("errors=1%"), result).measured, 1.0);
}

/// 100 answers of 1 ms within a second, of two lanes, of which each waits for its next when the
/// window ends.
LoadResult FrozenResult(const LoadOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const std::chrono::milliseconds ms(1);
  const LoadControl control;
  MeasuredWindow window(start, start + 1000 * ms);
  Recorder recorder(options, control, window);
  for (int i = 0; i < 100; ++i) {
    recorder.CountAnswer({.due = start + i * ms, .started = start, .ended = start + (i + 1) * ms});
  }
  const auto sent = start + 100 * ms;
  recorder.CountAnswer({.due = sent, .started = sent, .ended = start + 6000 * ms});
  recorder.CountFailure(absl::DeadlineExceededError("hung"), sent, sent, start + 6500 * ms);
  recorder.CountAnswer({.due = start + 1000 * ms, .started = sent, .ended = start + 9000 * ms});
  return recorder.Finish();
}

TEST(SloTest, TargetsOfAClosedLoopJudgeTheCallsThatWereInFlightWhenTheWindowEnded) {
  LoadOptions options;
  options.duration = absl::Seconds(1);
  const LoadResult result = FrozenResult(options);
  EXPECT_EQ(result.answers, 100);
  EXPECT_EQ(result.latency_ns.count(), 100);
  EXPECT_EQ(result.unfinished_ns.count(), 2) << "not what was sent after the end";
  EXPECT_EQ(result.unfinished_ns.max(), int64_t{6'400'000'000});
  const SloCheck mean = CheckSlo(*ParseSlo("mean=100ms"), result);
  EXPECT_FALSE(mean.is_met);
  EXPECT_TRUE(mean.counts_unfinished);
  EXPECT_NEAR(mean.measured.value_or(0), (100.0 + 5900.0 + 6400.0) / 102.0, 1e-6);
  EXPECT_EQ(CheckSlo(*ParseSlo("max=1h"), result).measured, std::nullopt) << "one had no answer";
  EXPECT_FALSE(CheckSlo(*ParseSlo("p99=1s"), result).is_met) << "2 of 102 took longer";
  EXPECT_FALSE(CheckSlo(*ParseSlo("p99.9=1s"), result).is_met) << "judged by the largest";
  EXPECT_TRUE(CheckSlo(*ParseSlo("p50=2ms"), result).is_met);
}

/// 1000 calls of which `failed` were not answered, each after 1 ms.
LoadResult FailedResult(int failed) {
  LoadResult result = Latencies(1000 - failed);
  FailureTally& tally = result.failures["DEADLINE_EXCEEDED"];
  tally.count = tally.in_window = failed;
  for (int i = 0; i < failed; ++i) {
    tally.latency_ns.Record(1'000'000);
  }
  return result;
}

TEST(SloTest, ACallThatWasNotAnsweredIsSlowerThanAnyThatWas) {
  const SloCheck met = CheckSlo(*ParseSlo("p99=1h"), FailedResult(10));
  EXPECT_TRUE(met.is_met);
  EXPECT_EQ(met.unanswered, 10);
  EXPECT_GE(met.measured.value_or(0), 989.0) << "the slowest answer";
  EXPECT_THAT(SloText(met), HasSubstr(" ms, with 10 calls not answered"));
  const SloCheck missed = CheckSlo(*ParseSlo("p99=1h"), FailedResult(11));
  EXPECT_FALSE(missed.is_met);
  EXPECT_EQ(missed.measured, std::nullopt);
  EXPECT_EQ(SloText(missed), "p99=1h MISSED: none, for 11 of 1000 calls were not answered");
  EXPECT_FALSE(CheckSlo(*ParseSlo("max=1h"), FailedResult(1)).is_met);
  EXPECT_FALSE(CheckSlo(*ParseSlo("p99.99=1h"), FailedResult(1)).is_met) << "of too few calls";
  EXPECT_TRUE(CheckSlo(*ParseSlo("p50=505ms"), FailedResult(11)).is_met);
}

TEST(SloTest, ARequestThatWasNotSentWasNotAnswered) {
  LoadResult result = Latencies(100);
  result.pace.emplace();
  result.failures[kNotSent].count = result.failures[kNotSent].in_window = 2;
  EXPECT_FALSE(CheckSlo(*ParseSlo("p99=1h"), result).is_met);
}

TEST(SloTest, AMeanCountsACallThatWasNotAnsweredAsTheSlowestAnswerOrItsOwnTime) {
  LoadResult result;
  result.latency_ns.Record(1'000'000);
  result.latency_ns.Record(3'000'000);
  FailureTally& tally = result.failures["UNAVAILABLE"];
  tally.count = tally.in_window = 1;
  tally.latency_ns.Record(10);
  EXPECT_NEAR(CheckSlo(*ParseSlo("mean=1s"), result).measured.value_or(0), 7.0 / 3.0, 1e-9);
  tally.latency_ns = Histogram();
  tally.latency_ns.Record(5'000'000);
  EXPECT_NEAR(CheckSlo(*ParseSlo("mean=1s"), result).measured.value_or(0), 9.0 / 3.0, 1e-9);
}

TEST(SloTest, AFailureThatEndsAfterAClosedLoopIsCountedOnce) {
  LoadResult result = Latencies(1000);
  FailureTally& tally = result.failures["DEADLINE_EXCEEDED"];
  tally.count = tally.in_window = 8;  // in flight when the window ended
  for (int i = 0; i < 8; ++i) {
    result.unfinished_ns.Record(int64_t{3'600'000'000'000});
  }
  // The 998th of 1008 calls; counted twice it would be the 1006th of 1016.
  EXPECT_TRUE(CheckSlo(*ParseSlo("p99=2s"), result).is_met);
}

TEST(SloTest, CallsInFlightAtTheEndNeverImproveAValue) {
  LoadResult result = Latencies(100);
  for (int i = 0; i < 100; ++i) {
    result.unfinished_ns.Record(1);
  }
  const SloCheck check = CheckSlo(*ParseSlo("p90=1s"), result);
  EXPECT_FALSE(check.counts_unfinished);
  EXPECT_GE(check.measured.value_or(0), 90.0);
}

TEST(StabilityTest, TimeWithoutAnswersUntilTheWindowEndsIsNotStable) {
  LoadOptions options;
  options.duration = absl::Seconds(1);
  const LoadResult result = FrozenResult(options);
  const Stability stability = JudgeStability(result.series, absl::Milliseconds(20), {});
  ASSERT_EQ(stability.windows.size(), 50u);
  EXPECT_GT(stability.windows.front().answers_per_s, 0.0);
  EXPECT_EQ(stability.windows.back().answers_per_s, 0.0);
  EXPECT_EQ(stability.is_stable, false);
}

TEST(SloTest, ErrorsAreAShareOfAllThatWereToBeSentInTheWindow) {
  LoadResult result = Latencies(95);
  FailureTally& failed = result.failures["UNAVAILABLE"];
  failed.count = 50;  // most of them in the warm-up
  failed.in_window = 3;
  result.failures[kNotSent].count = 40;
  result.failures[kNotSent].in_window = 2;
  EXPECT_EQ(CheckSlo(*ParseSlo("errors=5%"), result).measured, 0.05);
  EXPECT_TRUE(CheckSlo(*ParseSlo("errors=5%"), result).is_met);
  EXPECT_FALSE(CheckSlo(*ParseSlo("errors=4.9%"), result).is_met);
}

}  // namespace
}  // namespace attention
