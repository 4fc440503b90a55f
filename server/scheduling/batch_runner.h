// Computes a batch: gather, one call of the core over all rows, finish.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "core/runtime/workspace.h"
#include "server/scheduling/batcher.h"

namespace attention {

/// The measurements of a batch.
struct BatchOutcome {
  /// Whether all rows were computed.
  bool is_complete = false;
  /// The time that the batch had the machine: from its start to its last row, without the batches
  /// that passed it. The jobs' BatchStats::compute_ns includes those.
  int64_t used_ns = 0;
  /// The bytes copied from the jobs into the packed inputs.
  int64_t copied_bytes = 0;
};

/// Runs one batch at a time, on the thread that calls Run and on the pool's threads.
class BatchRunner {
 public:
  using Clock = Batcher::Clock;

  BatchRunner(ThreadPool& pool, Clock clock);

  /// A function that Run calls between the slices of a long batch, with the nanoseconds that the
  /// batch has run so far. The pool is free then, so the function may run another batch on another
  /// runner. Run calls it again if it returns true, as long as a caller waits for the long batch.
  using Interlude = std::function<bool(int64_t used_ns)>;

  /// Computes the batch and finishes each of its jobs: with OK; with CANCELLED or DEADLINE_EXCEEDED
  /// if the batch was given up because no caller waits for it; with UNAVAILABLE after Abort; or
  /// with RESOURCE_EXHAUSTED or INTERNAL if the computation threw, in which case the status names
  /// the failure. Does not throw. `interlude` may be null.
  BatchOutcome Run(const Batch& batch, const Interlude& interlude = nullptr);

  /// Returns the number of batches and slices that began or ended. Any thread.
  int64_t steps() const { return steps_; }

  /// Stops the running batch at its next slice, and keeps later batches from starting. Any thread.
  void Abort() { is_aborted_ = true; }

 private:
  absl::Status Compute(const Batch& batch, const Interlude& interlude, BatchOutcome& outcome,
                       int64_t& passed_ns);
  /// Lets other batches pass, and adds their time to `passed_ns`. Returns false when no caller
  /// waits for the batch any more.
  bool Pause(const Batch& batch, const Interlude& interlude, int64_t& passed_ns) const;
  bool IsAbandoned(const Batch& batch) const;

  Workspace workspace_;
  const Clock clock_;
  std::atomic<bool> is_aborted_ = false;
  std::atomic<int64_t> steps_ = 0;
};

}  // namespace attention
