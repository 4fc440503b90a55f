#include "server/scheduling/stall_watch.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <new>

#include "gmock/gmock.h"
#include "server/scheduling/executor.h"
#include "tests/server/scheduling/fake_job.h"
#include "tests/support/eventually.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

// Looks `times` times at the same progress. Returns the last answer.
bool Look(StallDetector& detector, const Progress& progress, int times) {
  bool is_stalled = false;
  for (int i = 0; i < times; ++i) {
    is_stalled = detector.Look(progress);
  }
  return is_stalled;
}

TEST(StallWatchTest, WorkWithoutAStepIsAStallAfterEnoughLooks) {
  StallDetector detector;
  const Progress busy = {.steps = 3, .has_work = true};
  EXPECT_FALSE(Look(detector, busy, 1)) << "the first look has nothing to compare with";
  EXPECT_FALSE(Look(detector, busy, StallDetector::kLooks - 1));
  EXPECT_TRUE(Look(detector, busy, 1));
  EXPECT_TRUE(Look(detector, busy, 100));
  EXPECT_FALSE(Look(detector, {.steps = 4, .has_work = true}, 1)) << "a step ends the stall";
}

TEST(StallWatchTest, NeitherIdlenessNorSlowWorkIsAStall) {
  StallDetector detector;
  EXPECT_FALSE(Look(detector, {.steps = 3, .has_work = false}, 100));
  for (int64_t step = 4; step < 100; ++step) {
    EXPECT_FALSE(Look(detector, {.steps = step, .has_work = true}, StallDetector::kLooks));
  }
}

TEST(StallWatchTest, NoticesABatchThatHangsAndItsEnd) {
  Executor executor({.num_threads = 1, .queue = {.max_bytes = 1 << 20, .max_requests = 8}});
  EXPECT_FALSE(executor.progress().has_work);
  std::atomic<bool> is_stalled = false;
  std::atomic<int> changes = 0;
  const StallWatch watch(
      std::chrono::milliseconds(60), [&] { return executor.progress(); },
      [&](bool stalls) {
        is_stalled = stalls;
        ++changes;
      });
  std::promise<void> release;
  const auto hanging = FakeJob::Make();
  const std::shared_future<void> released = release.get_future().share();
  hanging->FailGathering([released] { released.wait(); });
  ASSERT_THAT(executor.Submit(hanging), IsOk());
  EXPECT_TRUE(Eventually([&] { return is_stalled.load(); }));
  release.set_value();
  EXPECT_TRUE(Eventually([&] { return hanging->is_finished() && !is_stalled; }));
  EXPECT_THAT(hanging->status(), IsOk());
  EXPECT_GE(changes, 2);
}

TEST(StallWatchTest, ReportsAtTheNextLookWhatItCouldNotReport) {
  std::atomic<int> tries = 0;
  const StallWatch watch(
      std::chrono::milliseconds(6), [] { return Progress{.steps = 3, .has_work = true}; },
      [&](bool) {
        if (++tries == 1) {
          throw std::bad_alloc();
        }
      });
  EXPECT_TRUE(Eventually([&] { return tries == 2; }));
}

TEST(StallWatchTest, SaysOnceThatTheThreadsAreIdleAfterWork) {
  IdleDetector detector;
  const auto looks = [&](int64_t steps, bool has_work) {
    return detector.Look({.steps = steps, .has_work = has_work});
  };
  EXPECT_FALSE(looks(0, false)) << "there was no work yet";
  EXPECT_FALSE(looks(4, true));
  EXPECT_FALSE(looks(4, true)) << "it has not ended";
  EXPECT_FALSE(looks(8, false)) << "there was some since the last look";
  EXPECT_TRUE(looks(8, false));
  EXPECT_FALSE(looks(8, false)) << "it was said";
  EXPECT_FALSE(looks(9, false));
  EXPECT_TRUE(looks(9, false));
}

TEST(StallWatchTest, CallsWhatIsToBeDoneWhenIdle) {
  std::atomic<int> looks = 0, calls = 0;
  const StallWatch watch(
      std::chrono::milliseconds(6),
      [&] { return Progress{.steps = std::min(++looks, 3), .has_work = false}; }, [](bool) {},
      [&] { ++calls; });
  EXPECT_TRUE(Eventually([&] { return looks > 10; }));
  EXPECT_EQ(calls, 1);
}

TEST(StallWatchTest, EverySliceOfALongBatchIsAStep) {
  Executor executor({.num_threads = 1,
                     .batch = {.max_tokens = 256},
                     .queue = {.max_bytes = 1 << 30, .max_requests = 8}});
  const auto job = FakeJob::Make({.lengths = {2048}, .flops = 1e12, .wants_rows = true});
  ASSERT_THAT(executor.Submit(job), IsOk());
  ASSERT_TRUE(Eventually([&] { return job->is_finished() && !executor.progress().has_work; }));
  EXPECT_GE(executor.progress().steps, 2 + 2048 / 256) << "its start, its end, and its row blocks";
}

}  // namespace
}  // namespace attention
