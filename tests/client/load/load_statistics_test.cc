// Slices of time and stability: what is made of counts.
#include <chrono>
#include <cmath>
#include <vector>

#include "client/load/recorder.h"
#include "client/load/stability.h"
#include "client/load/time_series.h"
#include "gmock/gmock.h"

namespace attention {
namespace {

using ::testing::ElementsAre;

/// Answers of so many a slice of 100 ms, each after `latency_ms`.
TimeSeries Series(const std::vector<int>& answers, const std::vector<int>& latency_ms) {
  TimeSeries series(absl::Milliseconds(100));
  for (size_t i = 0; i < answers.size(); ++i) {
    TimeSlice& slice = series.At(absl::Milliseconds(100) * static_cast<int64_t>(i));
    slice.answers = answers[i];
    for (int k = 0; k < answers[i]; ++k) {
      slice.latency_ns.Record(int64_t{1'000'000} * latency_ms[i]);
    }
  }
  return series;
}

std::vector<int64_t> AnswersOf(const TimeSeries& series) {
  std::vector<int64_t> answers;
  for (const TimeSlice& slice : series.slices()) {
    answers.push_back(slice.answers);
  }
  return answers;
}

TEST(RecorderTest, ALoadIsHopelessWhenNothingButFailuresComeForLong) {
  LoadOptions options;
  options.duration = absl::Hours(1);
  const LoadControl control;
  const auto start = Recorder::Clock::now();
  MeasuredWindow window(start, start + std::chrono::hours(1));
  Recorder recorder(options, control, window);
  const auto fail = [&](int times, std::chrono::seconds at) {
    for (int i = 0; i < times; ++i) {
      recorder.CountFailure(absl::UnavailableError("gone"), start, start, start + at);
    }
  };
  fail(1000, std::chrono::seconds(1));  // a server that restarts, or that refuses what is too much
  EXPECT_FALSE(recorder.IsHopeless(start + std::chrono::seconds(4)));
  const auto answered = start + std::chrono::seconds(4);
  recorder.CountAnswer({.due = start, .started = start, .ended = answered});
  fail(200, std::chrono::seconds(20));
  EXPECT_FALSE(recorder.IsHopeless(start + std::chrono::seconds(20)));
  fail(1, std::chrono::seconds(20));
  EXPECT_FALSE(recorder.IsHopeless(answered + std::chrono::milliseconds(4999)));
  EXPECT_TRUE(recorder.IsHopeless(answered + std::chrono::seconds(5)));
}

TEST(TimeSeriesTest, SlicesAreFineAndFew) {
  EXPECT_EQ(TimeSeries::SliceFor(absl::Seconds(10)), absl::Milliseconds(100));
  EXPECT_EQ(TimeSeries::SliceFor(absl::Milliseconds(400)), absl::Milliseconds(5));
  EXPECT_EQ(TimeSeries::SliceFor(absl::Minutes(10)), absl::Seconds(1));
  for (const double seconds : {0.01, 0.3, 7.0, 61.0, 601.0, 86400.0, 3e6}) {
    const absl::Duration duration = absl::Seconds(seconds);
    EXPECT_LE(duration / TimeSeries::SliceFor(duration), TimeSeries::kMaxSlices) << seconds;
  }
}

TEST(TimeSeriesTest, BecomesCoarserInsteadOfLonger) {
  TimeSeries series(absl::Milliseconds(10));
  for (int i = 0; i < 601; ++i) {
    ++series.At(absl::Milliseconds(10) * i).answers;
  }
  EXPECT_EQ(series.slice(), absl::Milliseconds(20));
  ASSERT_EQ(series.slices().size(), 301u);
  EXPECT_EQ(series.slices()[0].answers, 2);
  EXPECT_EQ(series.slices()[299].answers, 2);
  EXPECT_EQ(series.slices()[300].answers, 1);
}

TEST(TimeSeriesTest, AnOddNumberOfSlicesBecomesCoarserWithoutLoss) {
  TimeSeries series(absl::Milliseconds(10));
  for (int i = 0; i < 599; ++i) {
    ++series.At(absl::Milliseconds(10) * i).answers;
  }
  ++series.At(absl::Milliseconds(10) * 600).answers;
  int64_t sum = 0;
  for (const int64_t answers : AnswersOf(series)) {
    sum += answers;
  }
  EXPECT_EQ(sum, 600);
}

TEST(TimeSeriesTest, MergesWhatIsFinerOrCoarser) {
  TimeSeries series = Series({1, 2, 3}, {1, 1, 1});
  TimeSeries finer(absl::Milliseconds(50));
  finer.At(absl::ZeroDuration()).answers = 10;
  finer.At(absl::Milliseconds(50)).answers = 20;
  finer.At(absl::Milliseconds(250)).answers = 40;
  series.Merge(finer);
  EXPECT_THAT(AnswersOf(series), ElementsAre(31, 2, 43));
  finer.Merge(Series({1, 2}, {1, 1}));
  EXPECT_EQ(finer.slice(), absl::Milliseconds(100));
  EXPECT_THAT(AnswersOf(finer), ElementsAre(31, 2, 40));
}

TEST(StabilityTest, TheLastThreeWindowsDecide) {
  const std::vector<int> even(8, 10);
  // Windows of two slices: 4, 20, 21, 20 answers.
  const Stability settled = JudgeStability(Series({2, 2, 10, 10, 11, 10, 10, 10}, even),
                                           absl::Milliseconds(200), {.percentage = 10.0});
  ASSERT_EQ(settled.windows.size(), 4u);
  EXPECT_DOUBLE_EQ(settled.windows[0].answers_per_s, 20.0);
  EXPECT_DOUBLE_EQ(settled.windows[2].answers_per_s, 105.0);
  EXPECT_NEAR(settled.windows[2].latency_ms.value_or(0), 10.0, 1e-9);
  EXPECT_EQ(settled.is_stable, true);
  const Stability strict = JudgeStability(Series({2, 2, 10, 10, 11, 10, 10, 10}, even),
                                          absl::Milliseconds(200), {.percentage = 4.0});
  EXPECT_EQ(strict.is_stable, false);
}

TEST(StabilityTest, WindowsWithoutAnswersHaveNoLatency) {
  TimeSeries series = Series({10, 0, 10, 10}, {10, 10, 10, 10});
  const Stability stability = JudgeStability(series, absl::Milliseconds(100), {.percentage = 10.0});
  ASSERT_EQ(stability.windows.size(), 4u);
  EXPECT_EQ(stability.windows[1].latency_ms, std::nullopt);
  EXPECT_EQ(stability.latency_cv, 0.0) << "all answers took 10 ms";
  EXPECT_GT(stability.throughput_cv, 0.1);
  EXPECT_EQ(stability.is_stable, false);
}

TEST(StabilityTest, LatencyMustSettleTooByMeanOrPercentile) {
  // The mean is even, one answer in ten of the last window is slow.
  TimeSeries series = Series({10, 10, 9}, {10, 10, 10});
  TimeSlice& last = series.At(absl::Milliseconds(200));
  last.answers = 10;
  last.latency_ns.Record(12'000'000);
  const absl::Duration window = absl::Milliseconds(100);
  EXPECT_EQ(JudgeStability(series, window, {.percentage = 5.0}).is_stable, true);
  EXPECT_EQ(JudgeStability(series, window, {.percentage = 5.0, .percentile = 99.0}).is_stable,
            false);
}

TEST(StabilityTest, FewerThanThreeWindowsSayNothingAndNoAnswersAreNotStable) {
  const absl::Duration window = absl::Milliseconds(100);
  EXPECT_FALSE(JudgeStability(Series({1, 1}, {1, 1}), window, {}).is_stable.has_value());
  EXPECT_EQ(JudgeStability(Series({0, 0, 0}, {1, 1, 1}), window, {}).is_stable, false);
}

// 350 ms at an even rate, in slices of 100 ms.
TEST(StabilityTest, ASliceThatWasNotMeasuredWholeIsLeftOut) {
  const TimeSeries series = Series({10, 10, 10, 5}, {10, 10, 10, 5});
  const absl::Duration window = absl::Milliseconds(100);
  EXPECT_GT(JudgeStability(series, window, {}).throughput_cv, 0.1);
  const Stability stability = JudgeStability(series, window, {}, absl::Milliseconds(350));
  EXPECT_EQ(stability.windows.size(), 3u);
  EXPECT_EQ(stability.throughput_cv, 0);
}

TEST(StabilityTest, VariationIsDeviationOverMean) {
  const Stability stability =
      JudgeStability(Series({8, 12, 8, 12}, {10, 10, 10, 10}), absl::Milliseconds(100), {});
  // Deviations of 2 from 10, by n - 1.
  EXPECT_NEAR(stability.throughput_cv, 0.2 * std::sqrt(4.0 / 3.0), 1e-9);
  EXPECT_NEAR(stability.latency_cv, 0.0, 1e-9);
}

TEST(RecorderTest, TokensShareTheTimeOfAStreamAndItsPhasesSumToIt) {
  const auto start = Recorder::Clock::time_point(std::chrono::hours(1));
  LoadOptions options;
  options.duration = absl::Seconds(1);
  const LoadControl control;
  MeasuredWindow window(start, start + std::chrono::seconds(1));
  Recorder recorder(options, control, window);
  v1::Summary summary;
  summary.set_batch_requests(1);
  summary.set_receive_ns(1'000'000);
  summary.set_queue_ns(2'000'000);
  summary.set_compute_ns(3'000'000);
  recorder.CountAnswer({.due = start,
                        .started = start,
                        .ended = start + std::chrono::milliseconds(10),
                        .tokens = 5,
                        .summary = summary,
                        .is_stream = true});
  const LoadResult result = recorder.Finish();
  EXPECT_EQ(result.token_ns.max(), 2'000'000);
  EXPECT_EQ(result.phases.return_ns.max(), 4'000'000) << "what is left of 10 ms";
}

TEST(RecorderTest, TokensFromThePrefixCacheAreCountedOfAnswersAndPrompts) {
  const auto start = Recorder::Clock::time_point(std::chrono::hours(1));
  const std::chrono::milliseconds ms(1);
  LoadOptions options;
  options.duration = absl::Seconds(1);
  const LoadControl control;
  MeasuredWindow window(start, start + 1000 * ms);
  Recorder recorder(options, control, window);
  v1::Summary summary;
  summary.set_cached_tokens(3);
  for (const auto ended : {start - ms, start + ms}) {  // the first is of the warm-up
    recorder.CountAnswer({.due = start - 2 * ms,
                          .started = start - 2 * ms,
                          .ended = ended,
                          .tokens = 5,
                          .summary = summary});
    recorder.CountPrefill(/*tokens=*/50, /*cached=*/40, start - 2 * ms, ended);
  }
  EXPECT_EQ(recorder.Finish().cached_tokens, 43);
}

}  // namespace
}  // namespace attention
