// A queue's calls as its tests make them: at one time, and of all that waits.
#pragma once

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

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

}  // namespace attention
