#include "server/scheduling/thread_priority.h"

#include <pthread.h>
#include <sched.h>

namespace attention {
namespace {

void SetPolicy(int policy) {
  const sched_param parameters = {};
  pthread_setschedparam(pthread_self(), policy, &parameters);
}

}  // namespace

LowPriorityThreads::LowPriorityThreads() : old_policy_(sched_getscheduler(0)) {
  if (old_policy_ == SCHED_OTHER) {
    SetPolicy(SCHED_BATCH);
  }
}

LowPriorityThreads::~LowPriorityThreads() {
  if (old_policy_ == SCHED_OTHER) {
    SetPolicy(SCHED_OTHER);
  }
}

}  // namespace attention
