// A fixed set of threads that run the tasks of one computation at a time.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace attention {

/// A fixed set of threads. `num_threads` counts the thread that calls ParallelFor: a pool of 1
/// starts no thread. Between computations the workers spin briefly and then sleep, so that losing a
/// core to another process costs one wake-up, not a stall. Started threads are pinned to NUMA nodes
/// (PinToNumaNode), of which the calling thread is worker 0.
class ThreadPool {
 public:
  using Task = absl::FunctionRef<void(int64_t index, int worker)>;

  /// Throws std::system_error when the system cannot start a thread.
  explicit ThreadPool(int num_threads);
  virtual ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  virtual int num_threads() const;

  /// Calls task(index, worker) once for every index in [0, count), worker in [0, num_threads()); at
  /// most one task runs per worker at a time. Which worker gets which task, and in which order,
  /// TaskRanges says. Returns when all are done; everything they wrote is visible. One caller at a
  /// time; tasks may not call it.
  ///
  /// Within tasks, denormal numbers are 0 (flush_denormals.h).
  ///
  /// When tasks throw, those that have begun are finished, others are not begun, and the exception
  /// of the lowest index that has failed is thrown here. The pool can be used again.
  virtual void ParallelFor(int64_t count, Task task);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Runs task(index) for every index in [0, count) on the pool, and returns the error of the lowest
/// index.
absl::Status ForAll(int64_t count, ThreadPool& pool,
                    absl::FunctionRef<absl::Status(int64_t index)> task);

}  // namespace attention
