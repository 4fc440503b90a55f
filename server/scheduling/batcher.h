// Forms batches: whatever waits when the executor is free is computed together.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "server/scheduling/job.h"
#include "server/scheduling/request_queue.h"

namespace attention {

/// Jobs of one key, in arrival order.
struct Batch {
  uint64_t id = 0;
  std::vector<std::shared_ptr<Job>> jobs;
  int64_t sequences = 0;
  int64_t tokens = 0;
  /// When the batch was formed.
  TimePoint start;
};

class Batcher {
 public:
  using Clock = std::function<TimePoint()>;

  /// `max_batch_tokens` bounds the query rows of a batch; a job that has more goes alone. `queue`
  /// outlives this.
  Batcher(RequestQueue& queue, int64_t max_batch_tokens, Clock clock);

  /// Waits for jobs, never for more of them. The oldest job decides the key; jobs of the same key
  /// join it as long as they fit, in order, past jobs of other keys. Jobs found expired or
  /// cancelled are finished with DEADLINE_EXCEEDED or CANCELLED. A batch without jobs is the end:
  /// the queue is closed and empty. One caller.
  Batch Next();

 private:
  RequestQueue& queue_;
  const int64_t max_batch_tokens_;
  const Clock clock_;
  uint64_t next_id_ = 1;
};

}  // namespace attention
