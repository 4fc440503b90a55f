// The window of a load: when it ends, and of which requests the answers are kept.
#include <chrono>
#include <memory>
#include <vector>

#include "client/load/recorder.h"
#include "client/load/window_plan.h"
#include "gmock/gmock.h"

namespace attention {
namespace {

using ::testing::ElementsAre;

/// A window of an hour that begins at kStart.
class SampleScheduleTest : public ::testing::Test {
 protected:
  static constexpr MeasuredWindow::Time kStart{std::chrono::hours(1)};

  SampleScheduleTest() { options_.duration = absl::InfiniteDuration(); }

  /// The places of the requests whose answers are kept, of `count` that are sent at `now`.
  static std::vector<int> TakenOf(SampleSchedule& samples, int count,
                                  MeasuredWindow::Time now = kStart) {
    std::vector<int> taken;
    for (int i = 0; i < count; ++i) {
      if (samples.Take(now)) {
        taken.push_back(i);
      }
    }
    return taken;
  }

  const MeasuredWindow window_{kStart, kStart + std::chrono::hours(1)};
  LoadOptions options_;
};

TEST_F(SampleScheduleTest, SamplesAreSpreadOverTheNumberOfRequests) {
  options_.num_samples = 4;
  options_.requests = 100;
  for (const absl::Duration duration : {absl::InfiniteDuration(), absl::Hours(1)}) {
    options_.duration = duration;
    SampleSchedule samples(options_, window_);
    EXPECT_THAT(TakenOf(samples, 50, kStart - std::chrono::seconds(1)), ElementsAre()) << "warm-up";
    EXPECT_THAT(TakenOf(samples, 100), ElementsAre(0, 25, 50, 75));
  }
}

TEST_F(SampleScheduleTest, SamplesAreSpreadOverARecordedSchedule) {
  auto trace = std::make_shared<ArrivalTrace>();
  trace->times = std::vector(8, std::chrono::nanoseconds(1000));
  trace->times.front() = std::chrono::nanoseconds(0);
  options_.num_samples = 2;
  options_.warmup = absl::Nanoseconds(500);
  options_.open_loop.emplace().arrivals.trace = trace;
  SampleSchedule samples(options_, window_);
  EXPECT_THAT(TakenOf(samples, 7), ElementsAre(0, 4)) << "of the 7 after the warm-up";
}

TEST_F(SampleScheduleTest, ARequestThatFailsLeavesItsPlaceToAnother) {
  options_.num_samples = 2;
  options_.requests = 10;
  SampleSchedule samples(options_, window_);
  EXPECT_THAT(TakenOf(samples, 1), ElementsAre(0));
  samples.GiveBack();
  EXPECT_THAT(TakenOf(samples, 9), ElementsAre(0, 4)) << "the next one, and the sixth of all";
}

TEST(WindowPlanTest, AScheduleShorterThanTheWarmUpHasAnEmptyWindow) {
  auto trace = std::make_shared<ArrivalTrace>();
  trace->times = {std::chrono::milliseconds(0), std::chrono::milliseconds(500)};
  LoadOptions options;
  options.warmup = absl::Seconds(5);
  options.duration = absl::Seconds(1);
  options.open_loop.emplace().arrivals.trace = trace;
  const OpenWindow window = PlanOpenWindow(options, {});
  EXPECT_LE(window.start, window.end);
}

TEST(WindowPlanTest, ANumberOfRequestsOfARateIsWaitedForUnlessTheTimeIsUpBefore) {
  LoadOptions options;
  options.duration = absl::InfiniteDuration();
  options.requests = 100;
  options.open_loop.emplace().arrivals.rate_per_s = 10.0;
  const OpenWindow window = PlanOpenWindow(options, {});
  EXPECT_EQ(window.end - window.start, std::chrono::seconds(10));
  EXPECT_TRUE(window.awaits_answers);
  options.duration = absl::Seconds(5);
  EXPECT_FALSE(PlanOpenWindow(options, {}).awaits_answers);
}

TEST(WindowPlanTest, AClosedLoopEndsWithTheRequestThatIsEnough) {
  LoadOptions options;
  options.duration = absl::Hours(1);
  options.requests = 3;
  ClosedWindow window(options);
  const auto later = Recorder::Clock::now() + std::chrono::seconds(1);
  window.Advance(later, 2);
  EXPECT_TRUE(window.IsOpen(later));
  window.Advance(later, 3);
  EXPECT_FALSE(window.IsOpen(later));
}

}  // namespace
}  // namespace attention
