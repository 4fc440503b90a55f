// Counts what is inside, and can be closed to newcomers.
#pragma once

#include <cstdint>

#include "core/runtime/mutex.h"
#include "server/scheduling/time_point.h"

namespace attention {

/// Thread-safe.
class Gate {
 public:
  /// False when closed; otherwise the caller owes one Leave.
  bool TryEnter();
  void Leave();
  void Close();
  /// Waits until everyone has left; false when `deadline` came first.
  bool WaitUntilEmpty(TimePoint deadline);

 private:
  Mutex mutex_;
  CondVar left_;
  int64_t inside_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
};

/// Is inside for as long as it lives. REQUIRES: the gate is never closed and outlives this.
class Visit {
 public:
  explicit Visit(Gate& gate) : gate_(gate) { gate_.TryEnter(); }
  ~Visit() { gate_.Leave(); }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

 private:
  Gate& gate_;
};

}  // namespace attention
