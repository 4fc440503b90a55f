// Threads for work beside computing that takes long: planning and encoding what is large.
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
  /// Whose work it is: owners get equal shares, the tasks of one run in the order given.
  std::string owner;
  /// How much it is, in bytes that it works through, or anything that time is proportional to.
  int64_t cost = 0;
  std::function<void()> run;
};

/// Runs tasks in the order of their finish tags (start-time fair queueing: Goyal, Vin & Cheng 1996)
/// over their owners, so that a small task of one passes large ones of another. Tasks are not
/// refused: who gives them has been let in before. Thread-safe.
class SidePool {
 public:
  /// The threads leave the core to those that route (BatchPolicy).
  explicit SidePool(int num_threads);
  /// Runs what was given, then ends.
  ~SidePool();
  SidePool(const SidePool&) = delete;
  SidePool& operator=(const SidePool&) = delete;

  void Run(SideTask task);

  /// What a long task calls between its parts: runs tasks that were given meanwhile, those that
  /// come before it by their tags and are at most half as large. Does nothing in other threads.
  void Yield();

  /// Tasks that wait.
  int64_t waiting() const;

 private:
  /// Finish tag, and number in the order of arrival.
  using Order = std::tuple<int64_t, int64_t>;
  struct Entry {
    SideTask task;
    int64_t start = 0;  // tags
    int64_t finish = 0;
  };

  void Work();
  void RunTask(Entry entry);
  Entry TakeFirst() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  CondVar changed_;
  std::map<Order, Entry> waiting_ ABSL_GUARDED_BY(mutex_);
  /// Finish tag of each owner's last task, while it is not past.
  std::map<std::string, int64_t> last_finish_ ABSL_GUARDED_BY(mutex_);
  /// Start tag of the latest task that began.
  int64_t virtual_time_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t next_number_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace attention
