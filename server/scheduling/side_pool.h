// Threads for long work besides computing: reading and encoding of large messages.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "core/runtime/mutex.h"

namespace attention {

struct SideTask {
  /// The owner of the work. Owners get equal shares; the tasks of one owner begin in the order
  /// given, and run side by side where there are several threads.
  std::string owner;
  /// The amount of work, in bytes or in any other unit that is proportional to time.
  int64_t cost = 0;
  std::function<void()> run;
};

/// Shares its threads fairly between the owners of tasks, so that a small task of one owner passes
/// large tasks of another. Tasks run in the order of their finish tags; the virtual time is the
/// start tag of the latest (start tags: Goyal, Vin & Cheng 1996). Tasks are not refused: their
/// callers were admitted before. Thread-safe.
class SidePool {
 public:
  /// Starts the threads, which yield to completion threads (LowPriorityThreads).
  explicit SidePool(int num_threads);
  /// Runs all remaining tasks, then ends.
  ~SidePool();
  SidePool(const SidePool&) = delete;
  SidePool& operator=(const SidePool&) = delete;

  /// Queues a task; any thread. An exception of the task is logged. Throws when there is no memory.
  void Run(SideTask task);

  /// Runs the waiting tasks that precede the calling task by their tags and are at most half as
  /// large. A long task calls this between its steps; elsewhere it has no effect.
  void Yield();

  /// Returns the number of waiting tasks.
  int64_t waiting() const;
  /// Returns the number of owners that are remembered.
  int64_t owners() const;

 private:
  /// The order of tasks: by finish tag, then by number of arrival.
  using Order = std::tuple<int64_t, int64_t>;
  struct Entry {
    SideTask task;
    int64_t start = 0;  // start tag
    int64_t finish = 0;
  };

  void Work();
  void RunTask(Entry entry);
  void Stop();
  Entry TakeFirst() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Sweep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  CondVar changed_;
  std::map<Order, Entry> waiting_ ABSL_GUARDED_BY(mutex_);
  int64_t num_running_ ABSL_GUARDED_BY(mutex_) = 0;
  /// The finish tag of each owner's last task, until it is past or no task is left.
  std::map<std::string, int64_t> last_finish_ ABSL_GUARDED_BY(mutex_);
  /// The number of owners at which those that are past are removed.
  size_t next_sweep_ ABSL_GUARDED_BY(mutex_) = 0;
  /// The start tag of the latest task that began.
  int64_t virtual_time_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t next_number_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace attention
