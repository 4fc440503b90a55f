#include "server/scheduling/batch_policy.h"

#include <pthread.h>
#include <sched.h>

namespace attention {
namespace {

void SetPolicy(int policy) {
  const sched_param parameters = {};
  pthread_setschedparam(pthread_self(), policy, &parameters);
}

}  // namespace

BatchPolicy::BatchPolicy() : old_policy_(sched_getscheduler(0)) {
  if (old_policy_ == SCHED_OTHER) {
    SetPolicy(SCHED_BATCH);
  }
}

BatchPolicy::~BatchPolicy() {
  if (old_policy_ == SCHED_OTHER) {
    SetPolicy(SCHED_OTHER);
  }
}

}  // namespace attention
