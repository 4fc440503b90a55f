#include "core/runtime/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <latch>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
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

TEST_P(ThreadPoolSizesTest, AWorkerRunsOneTaskAtATime) {
  ThreadPool pool(GetParam());
  std::vector<int64_t> calls(pool.num_threads());  // unguarded: a worker's entry is its own
  pool.ParallelFor(10'000, [&](int64_t, int worker) { ++calls.at(worker); });
  EXPECT_EQ(std::accumulate(calls.begin(), calls.end(), int64_t{0}), 10'000);
}

// What a task reads is then in the caches of its thread. Nobody takes a second task here.
TEST_P(ThreadPoolSizesTest, AWorkerBeginsWithTheSameTaskEachTime) {
  const int threads = GetParam();
  ThreadPool pool(threads);
  for (int round = 0; round < 20; ++round) {
    std::latch all_here(threads);
    std::vector<std::pair<int64_t, int>> begun(threads);
    std::atomic<int> calls = 0;
    pool.ParallelFor(3 * threads, [&](int64_t index, int worker) {
      if (const int call = calls++; call < threads) {
        begun[call] = {index, worker};
        all_here.arrive_and_wait();
      }
    });
    for (const auto& [index, worker] : begun) {
      ASSERT_EQ(index, 3 * worker);
    }
  }
}

// The first thread's task ends only when all others have run.
TEST_P(ThreadPoolSizesTest, ThreadsTakeTheTasksOfASlowOne) {
  const int threads = GetParam();
  ThreadPool pool(threads);
  std::atomic<bool> has_begun = false;
  std::atomic<int> others = 0;
  pool.ParallelFor(100, [&](int64_t, int worker) {
    if (worker == 0) {
      has_begun = true;
    } else {
      ++others;
    }
    while (worker == 0 ? threads > 1 && others < 99 : !has_begun) {
      std::this_thread::yield();
    }
  });
  EXPECT_EQ(others, threads > 1 ? 99 : 0);
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

TEST_P(ThreadPoolSizesTest, ThrowsTheLowestFailureAndWorksOn) {
  ThreadPool pool(GetParam());
  for (int round = 0; round < 200; ++round) {
    std::atomic<int64_t> calls = 0;
    std::vector<int64_t> failures(GetParam(), 1'000);  // a worker fails once
    const auto task = [&](int64_t index, int worker) {
      ++calls;
      if (index % (1'000 / GetParam()) >= 7) {
        failures[worker] = index;
        throw std::runtime_error(std::to_string(index));
      }
    };
    try {
      pool.ParallelFor(1'000, task);
      FAIL() << "expected an exception";
    } catch (const std::runtime_error& error) {
      ASSERT_EQ(error.what(), std::to_string(*std::min_element(failures.begin(), failures.end())));
    }
    ASSERT_GE(calls, 8);
    ASSERT_LE(calls, 8 * GetParam()) << "no task is begun after a failure";
    calls = 0;
    pool.ParallelFor(100, [&](int64_t, int) { ++calls; });
    ASSERT_EQ(calls, 100);
  }
}

INSTANTIATE_TEST_SUITE_P(NumThreads, ThreadPoolSizesTest, ::testing::Values(1, 2, 5));

#ifdef __SSE__
// On every thread alike, or bits would depend on which thread computes a row.
TEST_P(ThreadPoolSizesTest, TasksComputeWithoutDenormalNumbers) {
  ThreadPool pool(GetParam());
  const volatile float denormal = 1e-40f;
  const volatile float normal = 1e-30f;
  for (const int64_t count : {1, 200}) {
    std::vector<float> results(2 * count, 1);
    pool.ParallelFor(count, [&](int64_t index, int) {
      results[2 * index] = denormal * 1e20f;
      results[2 * index + 1] = normal * 1e-10f;
    });
    EXPECT_THAT(results, ::testing::Each(0.0f)) << count;
    EXPECT_THROW(pool.ParallelFor(count, [](int64_t, int) { throw std::runtime_error(""); }),
                 std::runtime_error);
    EXPECT_NE(denormal * 1e20f, 0.0f) << "the caller computes as before";
    EXPECT_NE(normal * 1e-10f, 0.0f);
  }
}
#endif

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
