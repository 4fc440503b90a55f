#include "server/scheduling/gate.h"

namespace attention {

bool Gate::TryEnter() {
  MutexLock lock(mutex_);
  if (is_closed_) {
    return false;
  }
  ++inside_;
  return true;
}

void Gate::Leave() {
  MutexLock lock(mutex_);
  if (--inside_ == 0) {
    // Notifies under the lock, since the waiting thread may destroy the gate as soon as it is
    // empty.
    left_.NotifyAll();
  }
}

void Gate::Close() {
  MutexLock lock(mutex_);
  is_closed_ = true;
}

bool Gate::WaitUntilEmpty(TimePoint deadline) {
  MutexLock lock(mutex_);
  while (inside_ > 0) {
    if (!left_.WaitUntil(mutex_, deadline)) {
      return inside_ == 0;
    }
  }
  return true;
}

}  // namespace attention
