// Counts the calls that are inside, and can be closed to new ones.
#pragma once

#include <cstdint>

#include "core/runtime/mutex.h"
#include "server/scheduling/time_point.h"

namespace attention {

/// Counts the calls that are inside. Thread-safe.
class Gate {
 public:
  /// Enters. Returns false when the gate is closed; otherwise the caller calls Leave once.
  bool TryEnter();
  void Leave();
  /// Makes TryEnter return false from now on. Those inside stay.
  void Close();
  /// Waits until all have left. Returns false after `deadline`.
  bool WaitUntilEmpty(TimePoint deadline);

 private:
  Mutex mutex_;
  CondVar left_;
  int64_t inside_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
};

/// Enters a gate, and leaves it when it is destroyed. REQUIRES: the gate is never closed and
/// outlives this.
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
