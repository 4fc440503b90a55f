// Threads that compute leave the core to those that route as soon as these have work.
#pragma once

namespace attention {

/// While it lives, threads that this thread starts are scheduled as SCHED_BATCH (sched(7)): they
/// never take a core from a thread that runs, and a thread that wakes takes it from them at once.
/// So what has arrived is read before the next computation begins, and forms larger batches.
/// Without effect where the system does not allow it.
class BatchPolicy {
 public:
  BatchPolicy();
  ~BatchPolicy();
  BatchPolicy(const BatchPolicy&) = delete;
  BatchPolicy& operator=(const BatchPolicy&) = delete;

 private:
  int old_policy_;
};

}  // namespace attention
