#include "tests/bench/simulated_pool.h"

#include <algorithm>

#include "core/runtime/task_ranges.h"

namespace attention::bench {

void SimulatedPool::Begin() {
  schedule_ = Schedule();
  serial_from_ns_ = clock_();
}

Schedule SimulatedPool::End() {
  schedule_.serial_ns += clock_() - serial_from_ns_;
  return schedule_;
}

void SimulatedPool::ParallelFor(int64_t count, Task task) {
  schedule_.serial_ns += clock_() - serial_from_ns_;
  std::vector<int64_t> busy_ns(num_threads_);  // of each thread, from the start of the call
  const TaskRanges ranges(count, num_threads_);
  std::vector<int64_t> next;  // unclaimed task of each range
  for (int range = 0; range < ranges.count; ++range) {
    next.push_back(ranges.Begin(range));
  }
  int64_t work_ns = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto first_free = std::min_element(busy_ns.begin(), busy_ns.end());
    const int worker = static_cast<int>(first_free - busy_ns.begin());
    int range = ranges.Next(worker, 0);
    for (int turn = 1; next[range] == ranges.Begin(range + 1); ++turn) {
      range = ranges.Next(worker, turn);
    }
    const int64_t begin = clock_();
    task(next[range]++, worker);
    const int64_t taken = clock_() - begin;
    *first_free += taken;
    work_ns += taken;
  }
  const int64_t span_ns = *std::max_element(busy_ns.begin(), busy_ns.end());
  schedule_.work_ns += work_ns;
  schedule_.parallel_ns += span_ns;
  schedule_.waiting_ns += span_ns * num_threads_ - work_ns;
  if (count > 1 && num_threads_ > 1) {
    schedule_.start_ns += start_ns_;
    ++schedule_.calls;
  }
  serial_from_ns_ = clock_();
}

}  // namespace attention::bench
