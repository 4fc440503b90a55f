#include "client/load/pacer.h"

#include <cmath>
#include <vector>

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

PaceWindow Window(int start_ms, int end_ms) {
  return {Time(milliseconds(start_ms)), Time(milliseconds(end_ms))};
}

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
  const PaceTally tally =
      Pace(Schedule({.rate_per_s = 100.0}, Time{}), time.clock(), Window(20, 50), [&](Time due) {
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
  const PaceTally tally =
      Pace(Schedule({.rate_per_s = 100.0}, Time{}), time.clock(), Window(0, 60), [&](Time due) {
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
  const PaceTally tally =
      Pace(Schedule({.rate_per_s = 100.0}, Time{}), time.clock(), Window(0, 40), [&](Time due) {
        due_ms.push_back(MillisecondsOf(due));
        return true;
      });
  EXPECT_THAT(due_ms, ElementsAre(0, 10, 20, 30));
  EXPECT_EQ(tally.lag_ns.max(), 3'000'000);
}

TEST(PaceTest, WhatCannotBeSentIsCountedAndHasNoLag) {
  StillClock time;
  int calls = 0;
  const PaceTally tally =
      Pace(Schedule({.rate_per_s = 100.0}, Time{}), time.clock(), Window(20, 60), [&](Time) {
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
  Pace(Schedule({.rate_per_s = 100.0}, Time{}), time.clock(), Window(0, 0), [&](Time due) {
    sent.push_back(due);
    return true;
  });
  EXPECT_THAT(sent, IsEmpty());
}

}  // namespace
}  // namespace attention
