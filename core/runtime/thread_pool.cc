#include "core/runtime/thread_pool.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "core/runtime/cpu_budget.h"
#include "core/runtime/flush_denormals.h"
#include "core/runtime/mutex.h"
#include "core/runtime/numa.h"
#include "core/runtime/task_ranges.h"

namespace attention {
namespace {

using Task = ThreadPool::Task;

// The time for which threads spin before they sleep: longer than the serial parts between the
// computations of one layer, far shorter than the time slice of a scheduler.
constexpr std::chrono::microseconds kSpinTime{50};

// The open bit of State::entry. The lower bits count the workers that have entered the job.
constexpr uint32_t kOpen = 1u << 31;

/// Tells the processor that this thread only waits.
inline void Pause() {
#ifdef __aarch64__
  asm volatile("yield");
#else
  __builtin_ia32_pause();
#endif
}

}  // namespace

// The fields of a job are written while the entry is closed and no worker is inside. A worker that
// wakes late therefore finds either a closed entry or the current job, never a finished one. The
// caller waits only for workers that have entered, not for those that a busy machine has not woken
// yet.
struct ThreadPool::State {
  explicit State(int num_threads);
  ~State();

  void Run(int64_t num_tasks, Task to_run);
  void WorkLoop(int worker);
  void ClaimTasks(int worker);
  void RunTask(int64_t index, int worker);
  /// Keeps the exception that is being handled. No further task is begun.
  void Fail(int64_t index);
  void ThrowFailure();
  void Stop();
  void WakeWorkers(int64_t wanted);
  void WaitForEmptyGate();
  void WaitForEpoch(uint64_t seen);
  bool Enter();
  void Leave();
  template <typename Condition>
  bool Spin(Condition condition) const;

  const bool may_spin;

  alignas(64) std::atomic<uint64_t> epoch{
      0};  // counts the jobs and the end; idle workers wait for a change
  alignas(64) std::atomic<uint32_t> entry{0};
  /// A range of the current job's tasks.
  struct alignas(64) Range {
    std::atomic<int64_t> next{0};  // the first task that nobody has claimed
    int64_t end = 0;
  };
  std::array<Range, TaskRanges::kMostRanges> ranges;

  // The current job.
  alignas(64) TaskRanges division;
  const Task* task = nullptr;

  // Written under `mutex`, and read without it to save a system call when no thread sleeps. A
  // thread that goes to sleep writes here first, and then reads its condition once more; the thread
  // that changes the condition reads here afterwards. All accesses are in one total order
  // (seq_cst), so at least one of the two threads reads what the other has written.
  std::atomic<int> sleeping_workers{0};
  std::atomic<bool> caller_sleeps{false};
  std::atomic<bool> stopping{false};
  Mutex mutex;
  CondVar work_ready;
  CondVar gate_empty;
  // The exception of the failed task with the lowest index of the current job. Jobs without a
  // failure read the flag only, and not the mutex.
  std::atomic<bool> has_failed{false};
  std::exception_ptr failure ABSL_GUARDED_BY(mutex);
  int64_t failed_index ABSL_GUARDED_BY(mutex) = 0;

  std::vector<std::thread> threads;  // the last member, since the threads use all others
};

ThreadPool::State::State(int num_threads) : may_spin(AffinityCpus() > 1) {
  threads.reserve(num_threads - 1);
  try {
    for (int worker = 1; worker < num_threads; ++worker) {
      threads.emplace_back([this, worker, num_threads] {
        PinToNumaNode(worker, num_threads);
        WorkLoop(worker);
      });
    }
  } catch (...) {
    Stop();
    throw;
  }
}

ThreadPool::State::~State() { Stop(); }

void ThreadPool::State::Stop() {
  stopping = true;
  ++epoch;
  WakeWorkers(static_cast<int64_t>(threads.size()));
  for (std::thread& thread : threads) {
    thread.join();
  }
}

template <typename Condition>
bool ThreadPool::State::Spin(Condition condition) const {
  if (!may_spin) {
    return condition();
  }
  const auto deadline = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < 16; ++i) {
      if (condition()) {
        return true;
      }
      Pause();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

bool ThreadPool::State::Enter() {
  uint32_t seen = entry.load();
  while (seen & kOpen) {
    if (entry.compare_exchange_weak(seen, seen + 1)) {
      return true;
    }
  }
  return false;
}

void ThreadPool::State::Leave() {
  if (entry.fetch_sub(1) == 1 &&
      caller_sleeps) {  // the entry is closed, and this was the last worker inside
    MutexLock lock(mutex);
    gate_empty.NotifyOne();
  }
}

void ThreadPool::State::ClaimTasks(int worker) {
  for (int turn = 0; turn < division.count; ++turn) {
    Range& range = ranges[division.Next(worker, turn)];
    // Only reads of an exhausted range, so that threads do not wait for each other's writes.
    while (range.next.load(std::memory_order_relaxed) < range.end) {
      const int64_t index = range.next.fetch_add(1);
      if (index < range.end) {
        RunTask(index, worker);
      }
    }
  }
}

void ThreadPool::State::RunTask(int64_t index, int worker) {
  try {
    (*task)(index, worker);
  } catch (...) {
    Fail(index);
  }
}

void ThreadPool::State::Fail(int64_t index) {
  for (int i = 0; i < division.count; ++i) {
    ranges[i].next = ranges[i].end;
  }
  MutexLock lock(mutex);
  if (failure == nullptr || index < failed_index) {
    failure = std::current_exception();
    failed_index = index;
    has_failed = true;
  }
}

void ThreadPool::State::ThrowFailure() {
  std::exception_ptr thrown;
  {
    MutexLock lock(mutex);
    thrown = std::exchange(failure, nullptr);
    has_failed = false;
  }
  std::rethrow_exception(std::move(thrown));
}

void ThreadPool::State::WorkLoop(int worker) {
  const FlushDenormals flush;
  uint64_t seen = 0;
  while (true) {
    WaitForEpoch(seen);
    seen = epoch;
    if (stopping) {  // written before the epoch that announces it
      return;
    }
    if (Enter()) {
      ClaimTasks(worker);
      Leave();
    }
  }
}

void ThreadPool::State::WaitForEpoch(uint64_t seen) {
  const auto has_changed = [&] { return epoch != seen; };
  if (Spin(has_changed)) {
    return;
  }
  MutexLock lock(mutex);
  ++sleeping_workers;
  while (!has_changed()) {
    work_ready.Wait(mutex);
  }
  --sleeping_workers;
}

void ThreadPool::State::WakeWorkers(int64_t wanted) {
  if (sleeping_workers == 0) {
    return;
  }
  int64_t sleeping;
  {
    MutexLock lock(mutex);
    sleeping = sleeping_workers;
  }
  if (wanted >= sleeping) {
    work_ready.NotifyAll();
    return;
  }
  for (int64_t i = 0; i < wanted; ++i) {
    work_ready.NotifyOne();
  }
}

void ThreadPool::State::WaitForEmptyGate() {
  const auto is_empty = [&] { return entry == 0; };
  if (Spin(is_empty)) {
    return;
  }
  MutexLock lock(mutex);
  caller_sleeps = true;
  while (!is_empty()) {
    gate_empty.Wait(mutex);
  }
  caller_sleeps = false;
}

void ThreadPool::State::Run(int64_t num_tasks, Task to_run) {
  division = TaskRanges(num_tasks, static_cast<int>(threads.size()) + 1);
  task = &to_run;
  for (int i = 0; i < division.count; ++i) {
    ranges[i].next.store(division.Begin(i), std::memory_order_relaxed);
    ranges[i].end = division.Begin(i + 1);
  }
  entry = kOpen;
  ++epoch;
  WakeWorkers(num_tasks - 1);
  ClaimTasks(0);
  entry.fetch_and(~kOpen);
  WaitForEmptyGate();
  if (has_failed) {
    ThrowFailure();
  }
}

ThreadPool::ThreadPool(int num_threads)
    : state_(std::make_unique<State>(std::max(num_threads, 1))) {}

ThreadPool::~ThreadPool() = default;

int ThreadPool::num_threads() const { return static_cast<int>(state_->threads.size()) + 1; }

void ThreadPool::ParallelFor(int64_t count, Task task) {
  const FlushDenormals flush;
  if (count > 1 && !state_->threads.empty()) {
    state_->Run(count, task);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    task(i, 0);
  }
}

absl::Status ForAll(int64_t count, ThreadPool& pool,
                    absl::FunctionRef<absl::Status(int64_t index)> task) {
  std::vector<absl::Status> statuses(count);
  pool.ParallelFor(count, [&](int64_t i, int /*worker*/) { statuses[i] = task(i); });
  const auto bad =
      std::ranges::find_if(statuses, [](const absl::Status& status) { return !status.ok(); });
  return bad == statuses.end() ? absl::OkStatus() : *bad;
}

}  // namespace attention
