#include "server/scheduling/side_pool.h"

#include <algorithm>
#include <utility>

#include "server/log/log.h"
#include "server/scheduling/thread_priority.h"

namespace attention {
namespace {

// From kFirstSweep owners on, those whose tasks are all past are removed. If there are still more
// than kMaxOwners, all are removed.
constexpr size_t kFirstSweep = 1024;
constexpr size_t kMaxOwners = 65536;

// So that no tag overflows, whatever size a caller claims: 8 million of these tasks fit.
constexpr int64_t kMaxCost = int64_t{1} << 40;

// The task that this thread runs; null outside of tasks.
struct Running {
  const SidePool* pool;
  int64_t cost;
  int64_t finish;
};
thread_local const Running* running = nullptr;

}  // namespace

SidePool::SidePool(int num_threads) {
  const LowPriorityThreads policy;
  try {
    for (int i = 0; i < num_threads; ++i) {
      threads_.emplace_back([this] { Work(); });
    }
  } catch (...) {
    Stop();
    throw;
  }
}

SidePool::~SidePool() { Stop(); }

void SidePool::Stop() {
  {
    MutexLock lock(mutex_);
    is_closed_ = true;
  }
  changed_.NotifyAll();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void SidePool::Run(SideTask task) {
  {
    MutexLock lock(mutex_);
    if (waiting_.empty() && num_running_ == 0) {
      last_finish_.clear();
      virtual_time_ = 0;
    }
    int64_t& last_finish = last_finish_[task.owner];
    const int64_t start = std::max(virtual_time_, last_finish);
    const int64_t finish = start + std::clamp<int64_t>(task.cost, 1, kMaxCost);
    waiting_.emplace(Order(finish, next_number_++), Entry{std::move(task), start, finish});
    last_finish = finish;
  }
  changed_.NotifyOne();
}

SidePool::Entry SidePool::TakeFirst() {
  Entry entry = std::move(waiting_.begin()->second);
  waiting_.erase(waiting_.begin());
  virtual_time_ = std::max(virtual_time_, entry.start);
  ++num_running_;
  if (last_finish_.size() > next_sweep_) {
    Sweep();
  }
  return entry;
}

// If every owner comes once, the virtual time does not advance and no tag is past. Then all are
// removed, and shares start anew.
void SidePool::Sweep() {
  std::erase_if(last_finish_, [&](const auto& last) { return last.second <= virtual_time_; });
  if (last_finish_.size() > kMaxOwners) {
    last_finish_.clear();
  }
  next_sweep_ = std::max(kFirstSweep, 2 * last_finish_.size());
}

void SidePool::RunTask(Entry entry) {
  const Running own = {this, entry.task.cost, entry.finish};
  const Running* const outer = std::exchange(running, &own);
  RunLogged("a side thread", entry.task.run);
  entry.task.run = nullptr;  // releases what it holds
  running = outer;
  MutexLock lock(mutex_);
  --num_running_;
}

void SidePool::Yield() {
  while (running != nullptr && running->pool == this) {
    Entry entry;
    {
      MutexLock lock(mutex_);
      if (waiting_.empty()) {
        return;
      }
      const Entry& first = waiting_.begin()->second;
      if (first.finish >= running->finish || first.task.cost > running->cost / 2) {
        return;
      }
      entry = TakeFirst();
    }
    RunTask(std::move(entry));
  }
}

int64_t SidePool::waiting() const {
  MutexLock lock(mutex_);
  return std::ssize(waiting_);
}

int64_t SidePool::owners() const {
  MutexLock lock(mutex_);
  return std::ssize(last_finish_);
}

void SidePool::Work() {
  while (true) {
    Entry entry;
    {
      MutexLock lock(mutex_);
      while (waiting_.empty() && !is_closed_) {
        changed_.Wait(mutex_);
      }
      if (waiting_.empty()) {
        return;
      }
      entry = TakeFirst();
    }
    RunTask(std::move(entry));
  }
}

}  // namespace attention
