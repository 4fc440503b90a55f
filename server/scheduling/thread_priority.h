// A scheduling policy that lets threads which handle RPCs run before threads which compute.
#pragma once

namespace attention {

/// While an object of this class lives, threads that this thread starts are scheduled as
/// SCHED_BATCH (sched(7)): they never preempt a running thread, and a thread that wakes up preempts
/// them at once. Requests that have arrived are therefore read before the next computation begins,
/// and batches become larger. The class has no effect where the system does not allow the policy.
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
