// How the threads of a pool divide the tasks of a computation.
#pragma once

#include <algorithm>
#include <cstdint>

namespace attention {

/// The tasks are divided into ranges of consecutive indices, as equal as possible. A thread takes
/// the tasks of its own range first, then those that are left in the ranges behind it, and then
/// those of the first ranges. Computations of equal numbers of tasks thus give a task to the same
/// thread each time, if all are equally fast: what a task reads or writes is then in the caches,
/// and in the NUMA node's memory, of the thread that will read it next. Each range has a counter of
/// its own, which few threads share.
struct TaskRanges {
  static constexpr int kMostRanges = 16;

  TaskRanges() = default;
  TaskRanges(int64_t num_tasks, int num_threads)
      : tasks(num_tasks),
        threads(num_threads),
        count(static_cast<int>(std::min<int64_t>(num_tasks, std::min(num_threads, kMostRanges)))) {}

  /// Returns the first task of a range, which is the end of the range before; range may be `count`.
  int64_t Begin(int range) const { return tasks * range / count; }
  /// Returns the `turn`-th range from which a thread takes tasks, turn in [0, count).
  int Next(int worker, int turn) const { return (worker * count / threads + turn) % count; }

  int64_t tasks = 0;
  int threads = 1;
  int count = 0;
};

}  // namespace attention
