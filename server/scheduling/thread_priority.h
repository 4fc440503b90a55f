// A priority of threads that lets completion threads run before threads which compute.
#pragma once

namespace attention {

/// While an object of this class lives, threads that this thread starts are scheduled as
/// SCHED_BATCH (sched(7)): they never preempt a running thread, and a thread that wakes up preempts
/// them at once. Requests that have arrived are therefore read before the next computation begins,
/// and batches become larger. The class has no effect where the system does not allow the policy.
class LowPriorityThreads {
 public:
  LowPriorityThreads();
  ~LowPriorityThreads();
  LowPriorityThreads(const LowPriorityThreads&) = delete;
  LowPriorityThreads& operator=(const LowPriorityThreads&) = delete;

 private:
  int old_policy_;
};

}  // namespace attention
