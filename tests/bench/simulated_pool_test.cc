#include "tests/bench/simulated_pool.h"

#include <vector>

#include "gtest/gtest.h"

namespace attention::bench {
namespace {

class SimulatedPoolTest : public ::testing::Test {
 protected:
  /// Runs tasks that take as long as `durations` say.
  void Run(ThreadPool& pool, const std::vector<int64_t>& durations) {
    pool.ParallelFor(std::ssize(durations), [&](int64_t i, int worker) {
      now_ += durations[i];
      tasks_.push_back(i);
      workers_.push_back(worker);
    });
  }
  SimulatedPool Pool(int threads) {
    return SimulatedPool(threads, /*start_ns=*/10, [this] { return now_; });
  }

  int64_t now_ = 1000;
  std::vector<int64_t> tasks_;
  std::vector<int> workers_;
};

TEST_F(SimulatedPoolTest, TheThreadThatIsFreeFirstClaimsTheNextTask) {
  SimulatedPool pool = Pool(2);
  pool.Begin();
  Run(pool, {30, 20, 10, 5, 5});
  const Schedule s = pool.End();
  // Tasks 0 and 1 are the first thread's, the others the second's, which then takes task 1.
  EXPECT_EQ(tasks_, (std::vector<int64_t>{0, 2, 3, 4, 1}));
  EXPECT_EQ(workers_, (std::vector<int>{0, 1, 1, 1, 1}));
  EXPECT_EQ(s.parallel_ns, 40);
  EXPECT_EQ(s.work_ns, 70);
  EXPECT_EQ(s.waiting_ns, 10);
  EXPECT_EQ(s.start_ns, 10);
  EXPECT_EQ(s.total_ns(), 50);
}

TEST_F(SimulatedPoolTest, WhatIsBetweenTheCallsIsSerial) {
  SimulatedPool pool = Pool(4);
  now_ += 7;
  pool.Begin();
  now_ += 3;
  Run(pool, {5, 5, 5, 5});
  now_ += 4;
  Run(pool, {6});
  now_ += 2;
  const Schedule s = pool.End();
  EXPECT_EQ(s.serial_ns, 9);
  EXPECT_EQ(s.parallel_ns, 5 + 6);
  EXPECT_EQ(s.waiting_ns, 3 * 6) << "three threads have nothing to do in the second call";
  EXPECT_EQ(s.calls, 1) << "one task starts no thread";
  EXPECT_EQ(4 * s.total_ns(), s.work_ns + 4 * (s.serial_ns + s.start_ns) + s.waiting_ns);
}

TEST_F(SimulatedPoolTest, OneThreadDoesEverythingInOrder) {
  SimulatedPool pool = Pool(1);
  pool.Begin();
  Run(pool, {4, 3});
  const Schedule s = pool.End();
  EXPECT_EQ(s.total_ns(), 7);
  EXPECT_EQ(s.waiting_ns + s.start_ns, 0);
}

TEST_F(SimulatedPoolTest, TheScheduleOfAllRunsHasTheMedianOfEachTask) {
  SimulatedPool pool = Pool(2);
  const std::vector<int64_t> serial = {1, 90, 3};
  const std::vector<std::vector<int64_t>> durations = {{30, 20, 10}, {30, 500, 12}, {700, 20, 14}};
  for (size_t run = 0; run < durations.size(); ++run) {
    pool.Begin();
    now_ += serial[run];
    Run(pool, durations[run]);
    now_ += 5;
    pool.End();
  }
  const Schedule s = pool.MedianSchedule();
  EXPECT_EQ(s.serial_ns, 3 + 5);
  EXPECT_EQ(s.work_ns, 30 + 20 + 12);
  EXPECT_EQ(s.parallel_ns, 12 + 20);
  EXPECT_EQ(s.waiting_ns, 2);
  EXPECT_EQ(s.calls, 1);
}

}  // namespace
}  // namespace attention::bench
