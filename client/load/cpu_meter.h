// How busy this process was.
#pragma once

#include <chrono>
#include <optional>

#include "client/load/pacer.h"

namespace attention {

/// CPU time of all threads of this process, since it began.
double ProcessCpuSeconds();

/// Measures over a window, as nearly as it is looked at. Not thread-safe.
class CpuMeter {
 public:
  using Clock = std::chrono::steady_clock;

  explicit CpuMeter(const PaceWindow& window) : window_(window) {}

  /// To be called often, also after the window.
  void Look(Clock::time_point now) {
    if (!start_.has_value()) {
      if (now >= window_.start) {
        start_ = {now, ProcessCpuSeconds()};
      }
    } else if (!share_.has_value() && now >= window_.end) {
      const std::chrono::duration<double> elapsed = now - start_->at;
      share_ = (ProcessCpuSeconds() - start_->cpu_seconds) / elapsed.count();
    }
  }

  /// CPU time over the window's length; 0 when the window has not passed.
  double share() const { return share_.value_or(0.0); }

 private:
  struct Mark {
    Clock::time_point at;
    double cpu_seconds = 0.0;
  };

  const PaceWindow window_;
  std::optional<Mark> start_;
  std::optional<double> share_;
};

}  // namespace attention
