// A queue with room for a second of work, for tests that say how long each job takes.
#pragma once

#include <chrono>
#include <memory>
#include <utility>

#include "gtest/gtest.h"
#include "tests/server/scheduling/queue_calls.h"
#include "tests/support/matchers.h"

namespace attention {

inline constexpr int64_t kMillisecond = 1'000'000;

inline WorkEstimate Takes(int64_t work_ms) {
  return {work_ms * kMillisecond, work_ms * kMillisecond};
}

class EstimatedQueueTest : public ::testing::Test {
 protected:
  std::shared_ptr<FakeJob> PushOf(const RequestClass& request_class, int64_t work_ms) {
    auto job = FakeJob::Make({.request_class = request_class});
    EXPECT_THAT(Push(queue_, job, Takes(work_ms)), IsOk());
    return job;
  }

  absl::Status PushDue(std::chrono::milliseconds time_left, int64_t work_ms,
                       const RequestClass& request_class = {}) {
    return Push(queue_,
                FakeJob::Make({.request_class = request_class, .deadline = kNow + time_left}),
                Takes(work_ms));
  }

  std::shared_ptr<Job> TakeOne() {
    bool is_first = true;
    return queue_.WaitAndTake({}, [&](const Job&) { return std::exchange(is_first, false); })[0];
  }

  // Takes all when eight rows wait. FakeJobs arrived at the clock's beginning: only a delay beyond
  // now is a wait.
  std::vector<std::shared_ptr<Job>> TakeForAnHour() {
    const auto until_now = std::chrono::steady_clock::now().time_since_epoch();
    return queue_.WaitAndTake({until_now + std::chrono::hours(1), /*enough_rows=*/8},
                              [](const Job&) { return true; });
  }

  RequestQueue queue_{{.max_bytes = 1 << 20, .max_requests = 100, .max_wait_ns = 1'000'000'000}};
};

}  // namespace attention
