// Has a load settled? The rule of perf_analyzer (its --stability-percentage), and how much
// throughput and latency vary.
#pragma once

#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "client/load/time_series.h"

namespace attention {

struct StabilityRule {
  /// Stable: of the last 3 trials the highest throughput is at most 1 + percentage / 100 times the
  /// lowest, and so are latencies.
  double percentage = 10.0;
  /// The latency that is looked at; absent: the mean.
  std::optional<double> percentile = std::nullopt;
  int max_trials = 10;
  /// Whether a load that does not settle has failed.
  bool is_required = false;
};

/// One of the equal parts of a window.
struct StabilityWindow {
  double answers_per_s = 0.0;
  double latency_ms = 0.0;  // the rule's; 0 without answers
};

struct Stability {
  absl::Duration window;
  std::vector<StabilityWindow> windows;
  /// By the rule; absent when there are fewer than 3 windows.
  std::optional<bool> is_stable;
  /// Standard deviation over mean, of all windows; 0 for fewer than 2.
  double throughput_cv = 0.0;
  double latency_cv = 0.0;
};

/// Cuts the series into windows of `window`, which is rounded to whole slices; a last one that is
/// not full is left out.
Stability JudgeStability(const TimeSeries& series, absl::Duration window,
                         const StabilityRule& rule);

}  // namespace attention
