// Measures how busy the client was.
#pragma once

#include <chrono>
#include <optional>

#include "client/load/measured_window.h"

namespace attention {

/// CPU times in seconds since the start of the process.
struct CpuTimes {
  /// The CPU time of all threads of this process.
  double used_s = 0.0;
  /// The time for which the calling thread was ready to run and waited for a CPU; 0 where the
  /// kernel does not report it.
  double waited_s = 0.0;
};
CpuTimes ReadCpuTimes();

/// Measures CPU time over a window; the more often Look is called, the more exactly. Only for the
/// thread that takes the answers.
class CpuMeter {
 public:
  using Clock = std::chrono::steady_clock;

  /// Borrows the window.
  explicit CpuMeter(const MeasuredWindow& window) : window_(window) {}

  /// Takes a measurement when the window begins or ends. REQUIRES: called often, also after the
  /// window.
  void Look(Clock::time_point now) {
    if (!start_.has_value()) {
      if (now >= window_.start()) {
        start_ = {now, ReadCpuTimes()};
      }
    } else if (!end_.has_value() && now >= window_.end()) {
      end_ = {now, ReadCpuTimes()};
    }
  }

  /// Takes the final measurement, and closes the window if it is still open.
  void Finish(Clock::time_point now) {
    Look(now);
    if (start_.has_value() && !end_.has_value()) {
      end_ = {now, ReadCpuTimes()};
    }
  }

  /// Shares of the length of the window, or of the time until Finish; 0 before the end.
  double used_share() const { return Share(&CpuTimes::used_s); }
  double waited_share() const { return Share(&CpuTimes::waited_s); }

 private:
  struct Mark {
    Clock::time_point at;
    CpuTimes times;
  };

  double Share(double CpuTimes::* seconds) const {
    if (!end_.has_value() || end_->at <= start_->at) {
      return 0.0;
    }
    const std::chrono::duration<double> elapsed = end_->at - start_->at;
    return (end_->times.*seconds - start_->times.*seconds) / elapsed.count();
  }

  const MeasuredWindow& window_;
  std::optional<Mark> start_;
  std::optional<Mark> end_;
};

}  // namespace attention
