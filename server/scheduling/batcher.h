// Forms batches: whatever waits when the executor is free is computed together.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "server/scheduling/job.h"
#include "server/scheduling/request_queue.h"

namespace attention {

/// Jobs of one key, in the queue's order.
struct Batch {
  uint64_t id = 0;
  std::vector<std::shared_ptr<Job>> jobs;
  int64_t sequences = 0;
  int64_t tokens = 0;
  double flops = 0;
  /// A job beyond the limits, alone: others may pass it.
  bool is_long = false;
  /// When the batch was formed.
  TimePoint start;
  /// Where it stands in the queue's order: the start tag of its first job.
  double position = 0;
};

struct BatchLimits {
  /// Query rows; a job that has more goes alone.
  int64_t max_tokens = 4096;
  /// Floating point operations for each thread, likewise: what a batch takes, all its requests wait
  /// for, and much more does not make it more efficient.
  double max_flops = 2e9;
  /// How long a job waits for others when the executor is free.
  std::chrono::nanoseconds max_delay{0};
};

class Batcher {
 public:
  using Clock = std::function<TimePoint()>;

  /// `queue` outlives this. `num_threads` compute.
  Batcher(RequestQueue& queue, const BatchLimits& limits, int num_threads, Clock clock);

  /// Waits for jobs, and not for more of them but for `max_delay`. The first in the queue's order
  /// decides the key; jobs of the same key join it in order, up to one that does not fit, past jobs
  /// of other keys. Jobs found expired or cancelled are finished with DEADLINE_EXCEEDED or
  /// CANCELLED. A batch without jobs is the end: the queue is closed and empty. One caller.
  Batch Next();

  /// A batch of what waits now, of jobs that would be done by `position` in the queue's order: what
  /// runs lets them pass when it has come there. Of jobs that are no long ones, if `allows_long` is
  /// false. Without jobs when there are none. The caller of Next.
  Batch NextBefore(double position, bool allows_long);

  /// A batch of what waits now, of jobs of `priority` or higher that take at most `max_ns` by
  /// estimate, and no more together; without jobs when there are none. The caller of Next.
  Batch NextShort(int64_t max_ns, Priority priority);

  /// Finishes those that nobody waits for, wherever they stand: they leave the queue. The caller of
  /// Next.
  void FinishDead();

 private:
  class Selection;
  /// Of the jobs that are not dead; ends those that are.
  Batch MakeBatch(std::vector<std::shared_ptr<Job>> taken);

  BatchLimits limits_;  // max_flops of all threads
  RequestQueue& queue_;
  const Clock clock_;
  uint64_t next_id_ = 1;
};

}  // namespace attention
