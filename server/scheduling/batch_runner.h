// Computes a batch: gather, one call of the core over all rows, finish.
#pragma once

#include <atomic>
#include <functional>

#include "core/runtime/workspace.h"
#include "server/scheduling/batcher.h"

namespace attention {

/// What a batch took and was.
struct BatchOutcome {
  bool is_complete = false;
  /// From the start of the batch to its last row, what others had in between apart.
  int64_t compute_ns = 0;
  /// Rows in the packed inputs beyond those that the jobs have.
  int64_t padding_tokens = 0;
  /// From the jobs into the packed inputs.
  int64_t copied_bytes = 0;
};

/// One batch at a time, on the thread that calls Run and the pool's.
class BatchRunner {
 public:
  using Clock = Batcher::Clock;

  BatchRunner(ThreadPool& pool, Clock clock);

  /// Finishes every job of the batch: OK; CANCELLED or DEADLINE_EXCEEDED when the batch was given
  /// up because nobody waits for it any more; UNAVAILABLE after Abort; RESOURCE_EXHAUSTED or
  /// INTERNAL, named, when computing it threw, which is where that ends. Does not throw.
  /// `interlude`, which may be
  /// null, is called between the parts of a long batch with the nanoseconds that it has had so far:
  /// the pool is free then, and it may run another batch on another runner. It is called again when
  /// it returns true, as long as somebody waits for the long one.
  using Interlude = std::function<bool(int64_t had_ns)>;
  BatchOutcome Run(const Batch& batch, const Interlude& interlude = nullptr);

  /// The batch that runs stops at its next part, and later ones do not start. From any thread.
  void Abort() { is_aborted_ = true; }

 private:
  absl::Status Compute(const Batch& batch, const Interlude& interlude, BatchOutcome& outcome);
  /// Lets others pass; false when nobody waits for the batch any more.
  bool Pause(const Batch& batch, const Interlude& interlude, BatchOutcome& outcome) const;
  bool IsDead(const Batch& batch) const;

  Workspace workspace_;
  const Clock clock_;
  std::atomic<bool> is_aborted_ = false;
};

}  // namespace attention
