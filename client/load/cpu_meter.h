// How busy the client was.
#pragma once

#include <chrono>
#include <optional>

#include "client/load/measured_window.h"

namespace attention {

/// Seconds of CPU time since the beginning: of all threads of this process; and those that the
/// calling thread wanted to run but waited for a CPU (0 where the kernel does not say).
struct CpuTimes {
  double used_s = 0.0;
  double waited_s = 0.0;
};
CpuTimes ReadCpuTimes();

/// Measures over a window, as nearly as it is looked at. One thread, that which takes the answers.
class CpuMeter {
 public:
  using Clock = std::chrono::steady_clock;

  /// Borrows the window.
  explicit CpuMeter(const MeasuredWindow& window) : window_(window) {}

  /// To be called often, also after the window.
  void Look(Clock::time_point now) {
    if (!start_.has_value()) {
      if (now >= window_.start()) {
        start_ = {now, ReadCpuTimes()};
      }
    } else if (!end_.has_value() && now >= window_.end()) {
      end_ = {now, ReadCpuTimes()};
    }
  }

  /// The last look, without which a window would have no end whose last answer came before it.
  void Finish(Clock::time_point now) {
    Look(now);
    if (start_.has_value() && !end_.has_value()) {
      end_ = {now, ReadCpuTimes()};
    }
  }

  /// Of the window's length, or until Finish; 0 before that.
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
