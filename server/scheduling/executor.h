// The dispatcher: one thread that takes batches and runs them.
#pragma once

#include <thread>

#include "core/runtime/thread_pool.h"
#include "server/scheduling/batch_runner.h"
#include "server/scheduling/batcher.h"
#include "server/scheduling/request_queue.h"

namespace attention {

struct ExecutorOptions {
  /// Threads that compute, the dispatcher's own among them.
  int num_threads = 1;
  /// Query rows of a batch of several requests.
  int64_t max_batch_tokens = 4096;
  QueueLimits queue;
};

/// Queue, batcher, compute threads. Thread-safe.
class Executor {
 public:
  explicit Executor(const ExecutorOptions& options);
  /// Stops.
  ~Executor();

  /// Every accepted job is finished, once. Errors are RequestQueue::Push's; a refused job is not
  /// finished.
  absl::Status Submit(std::shared_ptr<Job> job) { return queue_.Push(std::move(job)); }

  /// Finishes what was accepted, with UNAVAILABLE what has not been computed by now, and returns
  /// when all is finished.
  void Stop();

 private:
  void Dispatch();

  RequestQueue queue_;
  Batcher batcher_;
  ThreadPool pool_;
  BatchRunner runner_;
  std::thread dispatcher_;
};

}  // namespace attention
