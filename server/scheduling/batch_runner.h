// Computes a batch: gather, one call of the core over all rows, finish.
#pragma once

#include <atomic>
#include <functional>

#include "core/runtime/workspace.h"
#include "server/scheduling/batcher.h"

namespace attention {

/// One batch at a time, on the thread that calls Run and the pool's.
class BatchRunner {
 public:
  using Clock = Batcher::Clock;

  BatchRunner(ThreadPool& pool, Clock clock);

  /// Finishes every job of the batch: OK; CANCELLED or DEADLINE_EXCEEDED when the batch was given
  /// up because nobody waits for it any more; UNAVAILABLE after Abort.
  void Run(const Batch& batch);

  /// The batch that runs stops at its next row block, and later ones do not start. From any thread.
  void Abort() { is_aborted_ = true; }

 private:
  absl::Status Compute(const Batch& batch);
  bool IsDead(const Batch& batch) const;

  Workspace workspace_;
  const Clock clock_;
  std::atomic<bool> is_aborted_ = false;
};

}  // namespace attention
