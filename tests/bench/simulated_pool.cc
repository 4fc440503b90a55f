#include "tests/bench/simulated_pool.h"

#include <algorithm>

#include "core/runtime/task_ranges.h"
#include "tests/bench/median.h"

namespace attention::bench {

void SimulatedPool::Begin() {
  schedule_ = Schedule();
  call_ = 0;
  serial_from_ns_ = clock_();
}

Schedule SimulatedPool::End() {
  RecordSerial();
  return schedule_;
}

Schedule SimulatedPool::MedianSchedule() const {
  Schedule schedule;
  for (const Times& times : times_) {
    schedule.serial_ns += MedianOf(times.before);
    AddCall(
        std::ssize(times.tasks),
        [&](int64_t task, int /*worker*/) { return MedianOf(times.tasks[task]); }, schedule);
  }
  return schedule;
}

void SimulatedPool::RecordSerial() {
  const int64_t serial_ns = clock_() - serial_from_ns_;
  schedule_.serial_ns += serial_ns;
  times_.resize(std::max(times_.size(), call_ + 1));
  times_[call_].before.push_back(serial_ns);
}

void SimulatedPool::ParallelFor(int64_t count, Task task) {
  RecordSerial();
  std::vector<std::vector<int64_t>>& tasks = times_[call_].tasks;
  tasks.resize(std::max(tasks.size(), static_cast<size_t>(count)));
  const auto run = [&](int64_t i, int worker) {
    const int64_t begin = clock_();
    task(i, worker);
    tasks[i].push_back(clock_() - begin);
    return tasks[i].back();
  };
  AddCall(count, run, schedule_);
  ++call_;
  serial_from_ns_ = clock_();
}

void SimulatedPool::AddCall(int64_t count, const TimeOf& time_of, Schedule& schedule) const {
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
    const int64_t taken = time_of(next[range]++, worker);
    *first_free += taken;
    work_ns += taken;
  }
  const int64_t span_ns = *std::max_element(busy_ns.begin(), busy_ns.end());
  schedule.work_ns += work_ns;
  schedule.parallel_ns += span_ns;
  schedule.waiting_ns += span_ns * num_threads_ - work_ns;
  if (count > 1 && num_threads_ > 1) {
    schedule.start_ns += start_ns_;
    ++schedule.calls;
  }
}

}  // namespace attention::bench
