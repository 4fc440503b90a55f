#include "core/runtime/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "core/runtime/cpu_budget.h"
#include "core/runtime/mutex.h"

namespace attention {
namespace {

using Task = absl::FunctionRef<void(int64_t index, int worker)>;

// Longer than the serial stretches between the computations of one layer, far shorter than a
// scheduler's time slice.
constexpr std::chrono::microseconds kSpinTime{50};

// The job's gate: an open bit, and below it the number of workers inside.
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

// A job's fields are written while its gate is closed and nobody is inside, so that a worker that
// wakes late finds either a closed gate or the job of now, never a finished one. The caller
// therefore waits only for workers that did enter, not for those that a busy machine has not woken
// yet.
struct ThreadPool::State {
  explicit State(int num_threads);
  ~State();

  void Run(int64_t num_tasks, Task to_run);
  void WorkLoop(int worker);
  void ClaimTasks(int worker);
  /// Keeps the exception that is being handled, and begins no task more.
  void Fail(int64_t index);
  void ThrowFailure();
  void Stop();
  void WakeWorkers(int64_t wanted);
  void WaitForEmptyGate();
  void WaitForNews(uint64_t seen);
  bool Enter();
  void Leave();
  template <typename Condition>
  bool Spin(Condition condition) const;

  const bool may_spin;

  alignas(64) std::atomic<uint64_t> news{0};  // jobs so far, and the end: what idle workers watch
  alignas(64) std::atomic<uint32_t> gate{0};
  alignas(64) std::atomic<int64_t> next_index{0};

  // Of the open job.
  alignas(64) int64_t count = 0;
  const Task* task = nullptr;

  // Written under `mutex`, read without it to spare a system call when nobody sleeps. Each is
  // announced before the sleeper looks once more at what it waits for, and read after that was
  // changed: all of it in one total order (seq_cst), so one of the two sides sees the other.
  std::atomic<int> sleeping_workers{0};
  std::atomic<bool> caller_sleeps{false};
  std::atomic<bool> stopping{false};
  Mutex mutex;
  CondVar work_ready;
  CondVar gate_empty;
  // Of the open job: what the task of the lowest index that failed has thrown. The flag spares jobs
  // without a failure the mutex.
  std::atomic<bool> has_failed{false};
  std::exception_ptr failure ABSL_GUARDED_BY(mutex);
  int64_t failed_index ABSL_GUARDED_BY(mutex) = 0;

  std::vector<std::thread> threads;  // last: they use all of the above
};

ThreadPool::State::State(int num_threads) : may_spin(AffinityCpus() > 1) {
  threads.reserve(num_threads - 1);
  try {
    for (int worker = 1; worker < num_threads; ++worker) {
      threads.emplace_back([this, worker] { WorkLoop(worker); });
    }
  } catch (...) {
    Stop();
    throw;
  }
}

ThreadPool::State::~State() { Stop(); }

void ThreadPool::State::Stop() {
  stopping = true;
  ++news;
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
  uint32_t seen = gate.load();
  while (seen & kOpen) {
    if (gate.compare_exchange_weak(seen, seen + 1)) {
      return true;
    }
  }
  return false;
}

void ThreadPool::State::Leave() {
  if (gate.fetch_sub(1) == 1 && caller_sleeps) {  // closed, and the last one out
    MutexLock lock(mutex);
    gate_empty.NotifyOne();
  }
}

void ThreadPool::State::ClaimTasks(int worker) {
  for (int64_t i = next_index.fetch_add(1); i < count; i = next_index.fetch_add(1)) {
    try {
      (*task)(i, worker);
    } catch (...) {
      Fail(i);
    }
  }
}

// Lower indices than `index` have all been claimed, so the lowest failure is always found.
void ThreadPool::State::Fail(int64_t index) {
  next_index = count;
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
  uint64_t seen = 0;
  while (true) {
    WaitForNews(seen);
    seen = news;
    if (stopping) {  // read after the news that tells of it, which is seen only once
      return;
    }
    if (Enter()) {
      ClaimTasks(worker);
      Leave();
    }
  }
}

void ThreadPool::State::WaitForNews(uint64_t seen) {
  const auto has_news = [&] { return news != seen; };
  if (Spin(has_news)) {
    return;
  }
  MutexLock lock(mutex);
  ++sleeping_workers;
  while (!has_news()) {
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
  const auto is_empty = [&] { return gate == 0; };
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
  count = num_tasks;
  task = &to_run;
  next_index = 0;
  gate = kOpen;
  ++news;
  WakeWorkers(num_tasks - 1);
  ClaimTasks(0);
  gate.fetch_and(~kOpen);
  WaitForEmptyGate();
  if (has_failed) {
    ThrowFailure();
  }
}

ThreadPool::ThreadPool(int num_threads)
    : state_(std::make_unique<State>(std::max(num_threads, 1))) {}

ThreadPool::~ThreadPool() = default;

int ThreadPool::num_threads() const { return static_cast<int>(state_->threads.size()) + 1; }

void ThreadPool::ParallelFor(int64_t count,
                             absl::FunctionRef<void(int64_t index, int worker)> task) {
  if (count > 1 && !state_->threads.empty()) {
    state_->Run(count, task);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    task(i, 0);
  }
}

}  // namespace attention
