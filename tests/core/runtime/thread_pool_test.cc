#include "core/runtime/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"

namespace attention {
namespace {

// Long enough for idle threads to stop spinning and sleep.
void StayIdle() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

class ThreadPoolSizesTest : public ::testing::TestWithParam<int> {};

TEST_P(ThreadPoolSizesTest, CallsEveryIndexOnceAndShowsWhatWasWritten) {
  ThreadPool pool(GetParam());
  for (int64_t count = 0; count < 200; ++count) {
    std::vector<int> calls(count);
    pool.ParallelFor(count, [&](int64_t index, int) { ++calls[index]; });
    ASSERT_EQ(calls, std::vector<int>(count, 1));
  }
}

TEST_P(ThreadPoolSizesTest, AWorkerRunsOneTaskAtATimeInIncreasingOrder) {
  ThreadPool pool(GetParam());
  std::vector<std::vector<int64_t>> indices(
      pool.num_threads());  // unguarded: a worker's entry is its own
  pool.ParallelFor(10'000, [&](int64_t index, int worker) { indices.at(worker).push_back(index); });
  size_t total = 0;
  for (const std::vector<int64_t>& of_worker : indices) {
    EXPECT_TRUE(std::is_sorted(of_worker.begin(), of_worker.end()));
    total += of_worker.size();
  }
  EXPECT_EQ(total, 10'000u);
}

TEST_P(ThreadPoolSizesTest, ManyShortComputationsInARowAllFinish) {
  ThreadPool pool(GetParam());
  int64_t sum = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::atomic<int64_t> part = 0;
    pool.ParallelFor(3, [&](int64_t index, int) { part += index; });
    sum += part;
  }
  EXPECT_EQ(sum, 60'000);
}

TEST_P(ThreadPoolSizesTest, ThrowsTheFirstFailureInTaskOrderAndWorksOn) {
  ThreadPool pool(GetParam());
  for (int round = 0; round < 200; ++round) {
    std::atomic<int64_t> calls = 0;
    const auto task = [&](int64_t index, int) {
      ++calls;
      if (index >= 7) {
        throw std::runtime_error(std::to_string(index));
      }
    };
    try {
      pool.ParallelFor(1'000, task);
      FAIL() << "expected an exception";
    } catch (const std::runtime_error& error) {
      ASSERT_STREQ(error.what(), "7");
    }
    ASSERT_GE(calls, 8);
    ASSERT_LE(calls, 7 + GetParam()) << "tasks behind a failure are not begun";
    calls = 0;
    pool.ParallelFor(100, [&](int64_t, int) { ++calls; });
    ASSERT_EQ(calls, 100);
  }
}

INSTANTIATE_TEST_SUITE_P(NumThreads, ThreadPoolSizesTest, ::testing::Values(1, 2, 5));

TEST(ThreadPoolTest, CountsTheCallerAndIsNeverEmpty) {
  EXPECT_EQ(ThreadPool(3).num_threads(), 3);
  EXPECT_EQ(ThreadPool(0).num_threads(), 1);
  EXPECT_EQ(ThreadPool(-4).num_threads(), 1);
}

TEST(ThreadPoolTest, APoolOfOneRunsOnTheCaller) {
  ThreadPool pool(1);
  std::vector<int64_t> order;
  const std::thread::id caller = std::this_thread::get_id();
  pool.ParallelFor(3, [&](int64_t index, int worker) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(worker, 0);
    order.push_back(index);
  });
  EXPECT_THAT(order, ::testing::ElementsAre(0, 1, 2));
}

// Each task waits for the others, so each thread has one, and all of them throw.
TEST(ThreadPoolTest, WhatWorkersThrowReachesTheCaller) {
  ThreadPool pool(4);
  for (int round = 0; round < 20; ++round) {
    std::latch all_here(4);
    const auto task = [&](int64_t index, int) {
      all_here.arrive_and_wait();
      throw std::runtime_error(std::to_string(index));
    };
    try {
      pool.ParallelFor(4, task);
      FAIL() << "expected an exception";
    } catch (const std::runtime_error& error) {
      ASSERT_STREQ(error.what(), "0");
    }
  }
}

// Each task waits for the others, so none could return if they did not run at the same time.
TEST(ThreadPoolTest, AllThreadsWorkAtTheSameTimeAlsoAfterSleeping) {
  ThreadPool pool(4);
  for (int round = 0; round < 20; ++round) {
    std::latch all_here(4);
    pool.ParallelFor(4, [&](int64_t, int) { all_here.arrive_and_wait(); });
    if (round % 2 == 0) {
      StayIdle();
    }
  }
}

TEST(ThreadPoolTest, TheCallerWaitsForASlowWorker) {
  ThreadPool pool(2);
  for (int round = 0; round < 20; ++round) {
    std::latch both_here(2);
    int finished = 0;
    pool.ParallelFor(2, [&](int64_t, int worker) {
      both_here.arrive_and_wait();
      if (worker != 0) {
        StayIdle();
        finished = 1;
      }
    });
    ASSERT_EQ(finished, 1);
  }
}

TEST(ThreadPoolTest, WorksOnASingleCpu) {
  std::thread([] {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    CPU_SET(sched_getcpu(), &mask);
    ASSERT_EQ(sched_setaffinity(0, sizeof(mask), &mask), 0);
    ThreadPool pool(3);
    for (int round = 0; round < 50; ++round) {
      std::latch all_here(3);
      pool.ParallelFor(3, [&](int64_t, int) { all_here.arrive_and_wait(); });
    }
  }).join();
}

// The end may come while a worker still looks at the last computation.
TEST(ThreadPoolTest, EndsCleanlyRightAfterWork) {
  for (int64_t i = 0; i < 1000; ++i) {
    ThreadPool pool(2);
    std::latch both_here(2);
    pool.ParallelFor(2, [&](int64_t, int) { both_here.arrive_and_wait(); });
    std::atomic<int64_t> calls = 0;
    pool.ParallelFor(i % 32, [&](int64_t, int) { ++calls; });
    ASSERT_EQ(calls, i % 32);
  }
}

TEST(ThreadPoolTest, EndsCleanlyWithoutEverWorking) {
  for (int i = 0; i < 50; ++i) {
    ThreadPool pool(4);
    if (i % 2 == 0) {
      StayIdle();
    }
  }
}

}  // namespace
}  // namespace attention
