// Forms batches from the jobs that wait when the executor is free.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "server/scheduling/job.h"
#include "server/scheduling/request_queue.h"

namespace attention {

/// The jobs of a batch have one key, and are in the queue's order.
struct Batch {
  uint64_t id = 0;
  std::vector<std::shared_ptr<Job>> jobs;
  int64_t sequences = 0;
  int64_t tokens = 0;
  double flops = 0;
  /// True for a batch of more than Batcher::max_flops(). Other jobs may pass it.
  bool is_long = false;
  /// The time when the batch was formed.
  TimePoint start;
  /// The start tag (RequestFlows) of the first job that was taken, even if it turned out to be
  /// lost.
  double start_tag = 0;
};

struct BatchLimits {
  /// The maximum number of query rows. A job that has more is computed alone.
  int64_t max_tokens = 4096;
  /// The maximum number of floating point operations for each thread, since all requests of a batch
  /// wait for its end. A job that has more is computed alone, unless it shares weights.
  double max_flops = 2e9;
  /// The number of rows of a model that may be batched although their products with its weights
  /// exceed max_flops: those of a row tile (core/kernels/linear). The weights of a large stack take
  /// longer to read than to multiply with so few rows. Attention always counts towards max_flops.
  int64_t shared_rows = 64;
  /// The maximum memory of caches that the jobs take (JobDescription::cache_bytes), unless the
  /// batch is one job.
  int64_t max_cache_bytes = std::numeric_limits<int64_t>::max();
  /// The time that a job waits for others when the executor is free.
  std::chrono::nanoseconds max_delay{0};
};

/// Returns whether several jobs of the batch share a model's weights.
bool SharesWeights(const Batch& batch);
/// Returns the highest priority of the batch's jobs.
Priority HighestOf(const Batch& batch);

class Batcher {
 public:
  using Clock = std::function<TimePoint()>;
  struct Calls {
    Clock clock;
    /// Estimates a batch.
    std::function<WorkEstimate(const BatchKey& key, double flops)> estimate;
    /// Gets the jobs that find no memory (Job::TakeMemory): queues a job again, or ends it. Does
    /// not throw.
    std::function<void(std::shared_ptr<Job>)> requeue;
  };

  /// `queue` outlives this. `num_threads` is the number of compute threads.
  Batcher(RequestQueue& queue, const BatchLimits& limits, int num_threads, Calls calls);

  /// Returns the maximum number of operations of a batch that is not long, for all threads.
  double max_flops() const { return limits_.max_flops; }

  /// Waits for a job, and for further jobs at most for `max_delay`. The first job in the queue's
  /// order decides the key. Jobs of the same key join it in order, up to the first that does not
  /// fit, past jobs of other keys. A job does not join when the batch would then end after the
  /// deadline of one of its jobs; but no job can keep others out of a batch that takes twice its
  /// own time. Jobs that would be computed in vain are finished with DEADLINE_EXCEEDED or
  /// CANCELLED. A batch without jobs means that the queue is closed and empty. Called by one
  /// thread.
  Batch Next();

  /// Forms a batch of the waiting jobs that may pass `running`: those whose finish tags are at most
  /// `virtual_time`, the tag that `running` has reached. With `allows_long` false, long jobs are
  /// left out. When several jobs of `running` share a model's weights, further jobs of its key wait
  /// for the next batch unless their priority is higher. The batch has no jobs when there are none.
  /// Called by the thread that calls Next.
  Batch NextBefore(double virtual_time, bool allows_long, const Batch& running);

  /// Forms a batch of the waiting jobs that take at most `max_ns` each by estimate, and at most
  /// `max_ns` together, with a higher priority than `running`, or the same unless `only_higher`.
  /// Jobs that could share weights wait as above. The batch has no jobs when there are none. Called
  /// by the thread that calls Next.
  Batch NextShort(int64_t max_ns, const Batch& running, bool only_higher = false);

  /// Finishes the jobs that would be computed in vain, wherever they stand in the queue. Called by
  /// the thread that calls Next.
  void FinishLost();

 private:
  class Selection;
  /// Forms a batch of the jobs that are not computed in vain and that get memory.
  Batch MakeBatch(std::vector<std::shared_ptr<Job>> taken);

  BatchLimits limits_;  // max_flops is the sum over all threads
  RequestQueue& queue_;
  const Calls calls_;
  uint64_t next_id_ = 1;
};

}  // namespace attention
