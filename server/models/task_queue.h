// A queue of tasks for one thread.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "core/runtime/mutex.h"
#include "server/scheduling/time_point.h"

namespace attention {

/// A queue of tasks. Thread-safe.
class TaskQueue {
 public:
  /// A task is called once: with OK to do its work, or with an error if it will not run.
  using Task = std::function<void(const absl::Status& status)>;

  explicit TaskQueue(size_t max_tasks) : max_tasks_(max_tasks) {}

  /// Queues the task. If that fails, calls the task with RESOURCE_EXHAUSTED when the queue is full,
  /// or UNAVAILABLE after Close.
  void Push(Task task);
  /// Queues a task before all others, without a limit.
  void PushUrgent(Task task);

  /// Runs the waiting urgent tasks, on a thread that is in the middle of another task.
  void RunUrgent();

  /// Returns the next task; null after `deadline`, or after Close.
  std::optional<Task> Next(TimePoint deadline);

  /// Calls the waiting tasks with UNAVAILABLE, on this thread.
  void Close();
  bool is_closed() const;

 private:
  const size_t max_tasks_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<Task> urgent_ ABSL_GUARDED_BY(mutex_);
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace attention
