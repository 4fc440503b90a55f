// Counts the calls of a load run as they end.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "client/load/cpu_meter.h"
#include "client/load/encoded_load.h"
#include "client/load/lane.h"
#include "client/load/load_options.h"
#include "client/load/load_result.h"

namespace attention {

/// The window of a run that starts now.
PaceWindow WindowFromNow(const LoadOptions& options);

/// Not thread-safe.
class Recorder {
 public:
  using Clock = std::chrono::steady_clock;

  /// Borrows `load` and `options`.
  Recorder(const EncodedLoad& load, const LoadOptions& options, const PaceWindow& window);

  /// Counts a call that ended at `now`.
  void Count(const Lane& lane, Clock::time_point now);
  /// Failures since the last answer.
  int64_t failures_in_a_row() const { return failures_in_a_row_; }

  /// What was counted. REQUIRES: called once, at the end.
  LoadResult Finish();

 private:
  bool IsWithin(Clock::time_point time) const {
    return time >= window_.start && time < window_.end;
  }
  void CountError(const Lane& lane, const absl::Status& status, Clock::time_point now);
  void CountAnswer(const Lane& lane, const std::optional<ServerAccount>& account);
  void CountLatency(const Lane& lane, Clock::time_point now);
  bool IsMeasured(const Lane& lane, Clock::time_point now) const;

  const EncodedLoad& load_;
  const LoadOptions& options_;
  const PaceWindow window_;
  LoadResult result_;
  CpuMeter cpu_;
  int64_t failures_in_a_row_ = 0;
};

/// Which requests are kept whole: so many, at even distances over the window.
class SampleSchedule {
 public:
  SampleSchedule(int num_samples, const PaceWindow& window)
      : num_samples_(num_samples), window_(window) {}

  /// Whether the request that is sent at `now` is one of them.
  bool Take(std::chrono::steady_clock::time_point now) {
    if (num_taken_ >= num_samples_ ||
        now < window_.start + num_taken_ * (window_.end - window_.start) / num_samples_) {
      return false;
    }
    ++num_taken_;
    return true;
  }

 private:
  const int num_samples_;
  const PaceWindow window_;
  int num_taken_ = 0;
};

}  // namespace attention
