// The bounded queue between the RPC threads and the dispatcher.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/runtime/mutex.h"
#include "server/scheduling/job.h"

namespace attention {

struct QueueLimits {
  int64_t max_bytes = 0;
  int64_t max_requests = 0;
};

/// First in, first out. Never blocks a producer. Thread-safe.
class RequestQueue {
 public:
  explicit RequestQueue(const QueueLimits& limits) : limits_(limits) {}

  /// RESOURCE_EXHAUSTED when the job does not fit (an empty queue takes any job); UNAVAILABLE after
  /// Close. The job is then not kept, and not finished.
  absl::Status Push(std::shared_ptr<Job> job);

  /// Waits until there is a job, then takes those that `select` accepts, asked in arrival order. An
  /// empty result says that the queue is closed and empty. `select` is called under the queue's
  /// lock; it must accept the first it sees.
  std::vector<std::shared_ptr<Job>> WaitAndTake(absl::FunctionRef<bool(const Job&)> select);

  /// Refuses new jobs; those that wait can still be taken.
  void Close();

 private:
  const QueueLimits limits_;

  Mutex mutex_;
  CondVar changed_;
  std::deque<std::shared_ptr<Job>> jobs_ ABSL_GUARDED_BY(mutex_);
  int64_t size_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace attention
