// A queue's calls as its tests make them: at one time, and of all that waits.
#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/scheduling/request_queue.h"
#include "tests/server/scheduling/fake_job.h"

namespace attention {

inline const TimePoint kNow = TimePoint(std::chrono::hours(1));

inline absl::Status Push(RequestQueue& queue, std::shared_ptr<Job> job,
                         const WorkEstimate& work = {}) {
  return queue.Push(std::move(job), work, kNow);
}

inline std::vector<std::shared_ptr<Job>> TakeAll(RequestQueue& queue) {
  return queue.WaitAndTake({}, [](const Job&) { return true; });
}

/// Returns what `take` gives on a thread of its own, while this one calls `act`. A taker that still
/// waits after a minute is a failure.
template <typename Take, typename Act>
std::vector<std::shared_ptr<Job>> TakeBeside(RequestQueue& queue, const Take& take,
                                             const Act& act) {
  auto taken = std::async(std::launch::async, take);
  act();
  if (taken.wait_for(std::chrono::minutes(1)) != std::future_status::ready) {
    ADD_FAILURE() << "expected that the taker ends";
    queue.Close();
  }
  return taken.get();
}

}  // namespace attention
