// A thread pool that computes how long a computation would take on more threads than there are.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/runtime/thread_pool.h"

namespace attention::bench {

/// Nanoseconds of a steady clock.
using NowNs = std::function<int64_t()>;

/// Where the time of `threads` threads went, in nanoseconds. All of it is threads * total_ns() =
/// work + serial_ns * threads + waiting_ns + start_ns * threads.
struct Schedule {
  int64_t total_ns() const { return serial_ns + parallel_ns + start_ns; }

  int64_t serial_ns = 0;    // between calls of ParallelFor, where one thread computes
  int64_t parallel_ns = 0;  // from the first task of each call to the end of its last
  int64_t start_ns = 0;     // until the threads have begun a call, and until its end is noticed
  int64_t work_ns = 0;      // sum of all tasks
  int64_t waiting_ns = 0;   // of threads that found no further task, until the last one ended
  int64_t calls = 0;        // of ParallelFor with more than one task
};

/// Runs every task on the calling thread, and gives it to the simulated thread that would have
/// claimed it: the one that is free first takes the next of TaskRanges, as in ThreadPool. What
/// threads do to each other, in caches and in the bandwidth of memory, is not simulated.
///
/// The same computation is run several times. Then MedianSchedule replays it with the median time
/// of each task: in a single run some of its thousands of tasks are always held up by the machine,
/// and many threads wait for the slowest.
class SimulatedPool final : public ThreadPool {
 public:
  /// `start_ns`: what a call of ParallelFor costs beside its tasks.
  SimulatedPool(int num_threads, int64_t start_ns, NowNs clock)
      : ThreadPool(1), num_threads_(num_threads), start_ns_(start_ns), clock_(std::move(clock)) {}

  int num_threads() const override { return num_threads_; }
  void ParallelFor(int64_t count, Task task) override;

  /// A run begins.
  void Begin();
  /// The run ends. Returns its schedule.
  Schedule End();
  /// Returns the schedule of all runs together. REQUIRES: at least one.
  Schedule MedianSchedule() const;

 private:
  /// The times of a call of ParallelFor, and of what one thread does before it, in all runs.
  struct Times {
    std::vector<int64_t> before;
    std::vector<std::vector<int64_t>> tasks;
  };
  /// Returns the nanoseconds of a task, which runs on a thread.
  using TimeOf = std::function<int64_t(int64_t task, int worker)>;

  void RecordSerial();
  /// Adds a call of ParallelFor to a schedule.
  void AddCall(int64_t count, const TimeOf& time_of, Schedule& schedule) const;

  const int num_threads_;
  const int64_t start_ns_;
  const NowNs clock_;
  size_t call_ = 0;  // of the run
  int64_t serial_from_ns_ = 0;
  Schedule schedule_;         // of the run
  std::vector<Times> times_;  // by call; the last one has no tasks
};

}  // namespace attention::bench
