// Whether a load is stable, by the rule of perf_analyzer (its --stability-percentage), and how much
// throughput and latency vary.
#pragma once

#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "client/load/time_series.h"

namespace attention {

struct StabilityRule {
  /// A load is stable if, in the last 3 trials, the highest throughput is at most 1 + percentage /
  /// 100 times the lowest, and likewise the latencies.
  double percentage = 10.0;
  /// The percentile of latency that is compared; absent: the mean.
  std::optional<double> percentile = std::nullopt;
  int max_trials = 10;
  /// Whether a load that does not become stable has failed.
  bool is_required = false;
};

/// One of the equal parts of a window.
struct StabilityWindow {
  double answers_per_s = 0.0;
  std::optional<double> latency_ms = {};  // the rule's; absent without answers
};

struct Stability {
  absl::Duration window;
  std::vector<StabilityWindow> windows;
  /// Whether the load is stable; absent for fewer than 3 windows, and in a report without a rule.
  std::optional<bool> is_stable;
  /// The coefficients of variation (standard deviation over mean) of all windows, that of latencies
  /// of windows with answers; 0 for fewer than two windows.
  double throughput_cv = 0.0;
  double latency_cv = 0.0;
};

/// Divides the series into windows of length `window`, rounded to whole slices, and leaves out an
/// incomplete last window. What lies beyond `length` was not measured whole, unless it is all.
Stability JudgeStability(const TimeSeries& series, absl::Duration window, const StabilityRule& rule,
                         absl::Duration length = absl::InfiniteDuration());

}  // namespace attention
