// Tasks for one thread.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "core/runtime/mutex.h"
#include "server/scheduling/time_point.h"

namespace attention {

/// Thread-safe.
class TaskQueue {
 public:
  /// Is called once: with OK to do its work, with UNAVAILABLE when that will not come.
  using Task = std::function<void(const absl::Status& status)>;

  explicit TaskQueue(size_t max_tasks) : max_tasks_(max_tasks) {}

  /// Errors, of which the task itself hears: RESOURCE_EXHAUSTED when the queue is full, UNAVAILABLE
  /// after Close.
  void Push(Task task);
  /// Goes before all others, however many there are.
  void PushUrgent(Task task);

  /// Runs the urgent tasks that wait, for a thread that is in the middle of another task.
  void RunUrgent();

  /// The next task; null when `deadline` passed without one, or after Close.
  std::optional<Task> Next(TimePoint deadline);

  /// Tells those that wait, on this thread.
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
