#include "client/load/pacer.h"

#include <array>
#include <cmath>
#include <memory>
#include <vector>

#include "client/load/length_mix.h"
#include "gmock/gmock.h"

namespace attention {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Time = PacerClock::Steady::time_point;

/// Time that passes only when someone sleeps, or says so.
class StillClock {
 public:
  PacerClock clock() {
    return {.now = [this] { return now_; },
            .sleep_until = [this](Time until) { now_ = std::max(now_, until + oversleep_); }};
  }
  Time now() const { return now_; }
  void Pass(milliseconds duration) { now_ += duration; }
  void OversleepBy(milliseconds duration) { oversleep_ = duration; }

 private:
  Time now_{};
  milliseconds oversleep_{0};
};

int64_t MillisecondsOf(Time time) {
  return std::chrono::duration_cast<milliseconds>(time.time_since_epoch()).count();
}

constexpr absl::Duration kSlice = absl::Milliseconds(1);

struct Window : MeasuredWindow {
  Window(int start_ms, int end_ms)
      : MeasuredWindow(Time(milliseconds(start_ms)), Time(milliseconds(end_ms))) {}
};

TEST(ScheduleTest, ConstantArrivalsDoNotDriftOverAnHour) {
  Schedule schedule({.rate_per_s = 3.0}, Time{});
  for (int i = 0; i < 3 * 3600; ++i) {
    schedule.Advance();
  }
  EXPECT_EQ(schedule.due(), Time(std::chrono::hours(1)));
}

TEST(ScheduleTest, PoissonGapsAreExponentialAndRepeatable) {
  const ArrivalOptions options{.rate_per_s = 1000.0, .arrivals = Arrivals::kPoisson, .seed = 5};
  Schedule schedule(options, Time{}), same(options, Time{});
  constexpr int kGaps = 20000;
  double sum = 0.0, sum_of_squares = 0.0;
  Time last{};
  for (int i = 0; i < kGaps; ++i) {
    EXPECT_EQ(schedule.due(), same.due());
    const double gap_ms = std::chrono::duration<double, std::milli>(schedule.due() - last).count();
    EXPECT_GE(gap_ms, 0.0);
    sum += gap_ms;
    sum_of_squares += gap_ms * gap_ms;
    last = schedule.due();
    schedule.Advance();
    same.Advance();
  }
  // Mean and standard deviation of an exponential distribution are equal.
  const double mean = sum / kGaps;
  EXPECT_NEAR(mean, 1.0, 0.03);
  EXPECT_NEAR(std::sqrt(sum_of_squares / kGaps - mean * mean), 1.0, 0.05);
}

TEST(ScheduleTest, SeedsDiffer) {
  const ArrivalOptions options{.rate_per_s = 1000.0, .arrivals = Arrivals::kPoisson, .seed = 5};
  ArrivalOptions other = options;
  other.seed = 6;
  EXPECT_NE(Schedule(options, Time{}).due(), Schedule(other, Time{}).due());
}

TEST(PaceTest, SendsWhenDueUntilTheWindowEnds) {
  StillClock time;
  std::vector<int64_t> sent_at_ms;
  Window window(20, 50);
  const PaceTally tally =
      Pace(Schedule({.rate_per_s = 100.0}, Time{}), time.clock(), window, kSlice, [&](Time due) {
        EXPECT_EQ(due, time.now());
        sent_at_ms.push_back(MillisecondsOf(time.now()));
        return true;
      });
  EXPECT_THAT(sent_at_ms, ElementsAre(0, 10, 20, 30, 40));
  EXPECT_EQ(tally.due, 3);
  EXPECT_EQ(tally.not_sent, 0);
  EXPECT_EQ(tally.lag_ns.count(), 3);
  EXPECT_EQ(tally.lag_ns.max(), 0);
}

TEST(PaceTest, AfterAStallEverythingOverdueIsSentAtOnceWithTheTimeItWasDue) {
  StillClock time;
  std::vector<int64_t> due_ms, sent_at_ms;
  Window window(0, 60);
  const PaceTally tally =
      Pace(Schedule({.rate_per_s = 100.0}, Time{}), time.clock(), window, kSlice, [&](Time due) {
        due_ms.push_back(MillisecondsOf(due));
        sent_at_ms.push_back(MillisecondsOf(time.now()));
        if (due_ms.size() == 2) {
          time.Pass(milliseconds(32));
        }
        return true;
      });
  EXPECT_THAT(due_ms, ElementsAre(0, 10, 20, 30, 40, 50));
  EXPECT_THAT(sent_at_ms, ElementsAre(0, 10, 42, 42, 42, 50));
  EXPECT_EQ(tally.due, 6);
  EXPECT_EQ(tally.lag_ns.max(), 22'000'000);
}

TEST(PaceTest, SleepingTooLongIsLagAndShiftsNothing) {
  StillClock time;
  time.OversleepBy(milliseconds(3));
  std::vector<int64_t> due_ms;
  Window window(0, 40);
  const PaceTally tally =
      Pace(Schedule({.rate_per_s = 100.0}, Time{}), time.clock(), window, kSlice, [&](Time due) {
        due_ms.push_back(MillisecondsOf(due));
        return true;
      });
  EXPECT_THAT(due_ms, ElementsAre(0, 10, 20, 30));
  EXPECT_EQ(tally.lag_ns.max(), 3'000'000);
}

TEST(PaceTest, WhatCannotBeSentIsCountedAndHasNoLag) {
  StillClock time;
  int calls = 0;
  Window window(20, 60);
  const PaceTally tally =
      Pace(Schedule({.rate_per_s = 100.0}, Time{}), time.clock(), window, kSlice, [&](Time) {
        return ++calls % 2 == 1;  // the 1st, 3rd and 5th, due at 0, 20 and 40 ms
      });
  EXPECT_EQ(calls, 6);
  EXPECT_EQ(tally.due, 4);
  EXPECT_EQ(tally.not_sent, 2);
  EXPECT_EQ(tally.lag_ns.count(), 2);
}

TEST(PaceTest, AnEmptyWindowSendsNothing) {
  StillClock time;
  std::vector<Time> sent;
  Window window(0, 0);
  Pace(Schedule({.rate_per_s = 100.0}, Time{}), time.clock(), window, kSlice, [&](Time due) {
    sent.push_back(due);
    return true;
  });
  EXPECT_THAT(sent, IsEmpty());
}

TEST(ScheduleTest, ARampMakesAsManyDueAsItsAreaSays) {
  // 10/s for 2 s, then rising to 30/s over 4 s, then 30/s: 20, 100 by the ramp's end, 130 a second
  // later.
  const ArrivalOptions options{
      .rate_per_s = 10.0, .ramp = Ramp{.to_rate_per_s = 30.0, .start_s = 2.0, .length_s = 4.0}};
  Schedule schedule(options, Time{});
  std::vector<int64_t> at_ms;
  for (int i = 0; i <= 130; ++i) {
    at_ms.push_back(MillisecondsOf(schedule.due()));
    schedule.Advance();
  }
  for (int i = 0; i <= 20; ++i) {
    EXPECT_EQ(at_ms[i], 100 * i);
  }
  // Half-way through the ramp the rate is 20/s: 10 * 2 + (10 + 20) / 2 * 2 are due.
  EXPECT_EQ(at_ms[50], 4000);
  EXPECT_EQ(at_ms[100], 6000);
  EXPECT_EQ(at_ms[130], 7000);
}

TEST(ScheduleTest, ARampMayFallAndMayBePoisson) {
  const ArrivalOptions options{
      .rate_per_s = 2000.0,
      .arrivals = Arrivals::kPoisson,
      .seed = 3,
      .ramp = Ramp{.to_rate_per_s = 1.0, .start_s = 0.0, .length_s = 10.0}};
  Schedule schedule(options, Time{});
  int count = 0, in_first_half = 0;
  for (; schedule.due() < Time(std::chrono::seconds(10)); schedule.Advance()) {
    ++count;
    in_first_half += schedule.due() < Time(std::chrono::seconds(5)) ? 1 : 0;
  }
  EXPECT_NEAR(count, 10'005, 400);
  EXPECT_NEAR(static_cast<double>(in_first_half) / count, 0.75, 0.02);
}

TEST(ScheduleTest, ATraceIsSentAsItWasAndThenEnds) {
  auto trace = std::make_shared<ArrivalTrace>();
  trace->times = {milliseconds(0), milliseconds(5), milliseconds(5), milliseconds(40)};
  StillClock time;
  std::vector<int64_t> due_ms;
  Window window(5, 1000);
  const PaceTally tally =
      Pace(Schedule({.trace = trace}, Time{}), time.clock(), window, kSlice, [&](Time due) {
        due_ms.push_back(MillisecondsOf(due));
        return true;
      });
  EXPECT_THAT(due_ms, ElementsAre(0, 5, 5, 40));
  EXPECT_EQ(tally.due, 3);
}

TEST(PaceTest, EndsWhenAskedAndWhatWasSentByThenCounts) {
  StillClock time;
  Window window(0, 1000);
  const PaceTally tally =
      Pace(Schedule({.rate_per_s = 100.0}, Time{}), time.clock(), window, kSlice, [&](Time due) {
        if (due == Time(milliseconds(30))) {
          window.RequestEnd();
        }
        return true;
      });
  EXPECT_EQ(tally.due, 4);
  EXPECT_EQ(window.end(), Time(milliseconds(40)));
}

// Both are drawn with one seed. A long request that always came after a long pause would have the
// server to itself.
TEST(ScheduleTest, RandomArrivalsDoNotFollowWhatIsDrawnForThem) {
  constexpr uint64_t kSeed = 9;
  Schedule schedule({.rate_per_s = 1.0, .arrivals = Arrivals::kPoisson, .seed = kSeed}, Time{});
  WeightedDraw draw({1.0, 1.0}, kSeed);
  std::array<double, 2> pause_s = {};
  std::array<int, 2> count = {};
  Time before{};
  for (int i = 0; i < 4000; ++i) {
    const size_t kind = draw.Next();
    pause_s[kind] += std::chrono::duration<double>(schedule.due() - before).count();
    ++count[kind];
    before = schedule.due();
    schedule.Advance();
  }
  EXPECT_NEAR(pause_s[0] / count[0], 1.0, 0.1);
  EXPECT_NEAR(pause_s[1] / count[1], 1.0, 0.1);
}

TEST(PaceTest, SlicesSayWhatWasDueAndWhenItWasSent) {
  StillClock time;
  Window window(0, 60);
  const PaceTally tally =
      Pace(Schedule({.rate_per_s = 100.0}, Time{}), time.clock(), window, kSlice, [&](Time due) {
        if (due == Time(milliseconds(10))) {
          time.Pass(milliseconds(32));
        }
        return due != Time(milliseconds(50));
      });
  const absl::Duration ten = absl::Milliseconds(10);
  TimeSeries by_ten(ten);
  by_ten.Merge(tally.series);
  std::vector<int64_t> due, sent;
  for (const TimeSlice& slice : by_ten.slices()) {
    due.push_back(slice.due);
    sent.push_back(slice.sent);
  }
  EXPECT_THAT(due, ElementsAre(1, 1, 1, 1, 1, 1));
  EXPECT_THAT(sent, ElementsAre(1, 1, 0, 0, 3, 0));
  EXPECT_EQ(by_ten.slices()[5].not_sent, 1);
}

}  // namespace
}  // namespace attention
