#include "server/models/task_queue.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/scheduling/refusal.h"

namespace attention {

void TaskQueue::Push(Task task) {
  absl::Status refusal;
  {
    MutexLock lock(mutex_);
    if (is_closed_) {
      refusal = Draining();
    } else if (tasks_.size() >= max_tasks_) {
      refusal = absl::ResourceExhaustedError(absl::StrCat("the model loader is busy: at most ",
                                                          max_tasks_, " requests may wait for it"));
    } else {
      tasks_.push_back(std::move(task));
      changed_.NotifyAll();
      return;
    }
  }
  task(refusal);
}

void TaskQueue::PushUrgent(Task task) {
  {
    MutexLock lock(mutex_);
    if (!is_closed_) {
      urgent_.push_back(std::move(task));
      changed_.NotifyAll();
      return;
    }
  }
  task(Draining());
}

void TaskQueue::RunUrgent() {
  std::deque<Task> urgent;
  {
    MutexLock lock(mutex_);
    urgent.swap(urgent_);
  }
  for (const Task& task : urgent) {
    task(absl::OkStatus());
  }
}

std::optional<TaskQueue::Task> TaskQueue::Next(TimePoint deadline) {
  MutexLock lock(mutex_);
  while (urgent_.empty() && tasks_.empty() && !is_closed_) {
    if (deadline == TimePoint::max()) {
      changed_.Wait(mutex_);
    } else if (!changed_.WaitUntil(mutex_, deadline)) {
      return std::nullopt;
    }
  }
  if (is_closed_) {
    return std::nullopt;
  }
  std::deque<Task>& first = urgent_.empty() ? tasks_ : urgent_;
  Task task = std::move(first.front());
  first.pop_front();
  return task;
}

void TaskQueue::Close() {
  std::deque<Task> urgent, tasks;
  {
    MutexLock lock(mutex_);
    is_closed_ = true;
    urgent.swap(urgent_);
    tasks.swap(tasks_);
    changed_.NotifyAll();
  }
  for (const std::deque<Task>* const refused : {&urgent, &tasks}) {
    for (const Task& task : *refused) {
      task(Draining());
    }
  }
}

bool TaskQueue::is_closed() const {
  MutexLock lock(mutex_);
  return is_closed_;
}

}  // namespace attention
