#include "client/load/stability.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "client/load/load_result.h"

namespace attention {
namespace {

/// The number of last trials that must agree.
constexpr int64_t kTrials = 3;

using Values = std::vector<double>;

double VariationOf(const Values& values) {
  if (values.size() < 2) {
    return 0.0;
  }
  double mean = 0.0, squares = 0.0;
  for (const double value : values) {
    mean += value / values.size();
  }
  for (const double value : values) {
    squares += (value - mean) * (value - mean) / (values.size() - 1);
  }
  return Share(std::sqrt(squares), mean);
}

/// Whether the last values are > 0 and within `percentage` of each other.
bool IsSettled(const Values& values, double percentage) {
  if (std::ssize(values) < kTrials) {
    return false;
  }
  const auto [min, max] = std::minmax_element(values.end() - kTrials, values.end());
  return *min > 0.0 && *max <= *min * (1.0 + percentage / 100.0);
}

StabilityWindow Summarize(const TimeSlice& slice, absl::Duration window,
                          const StabilityRule& rule) {
  const Histogram& latency = slice.latency_ns;
  const double nanoseconds = rule.percentile.has_value()
                                 ? static_cast<double>(latency.Percentile(*rule.percentile))
                                 : latency.mean();
  StabilityWindow summary = {.answers_per_s = slice.answers / absl::ToDoubleSeconds(window)};
  if (latency.count() > 0) {
    summary.latency_ms = Milliseconds(nanoseconds);
  }
  return summary;
}

}  // namespace

Stability JudgeStability(const TimeSeries& series, absl::Duration window, const StabilityRule& rule,
                         absl::Duration length) {
  const int64_t slices_per_window =
      std::max<int64_t>(1, std::llround(absl::FDivDuration(window, series.slice())));
  Stability stability{.window = slices_per_window * series.slice()};
  Values rates, latencies;
  const int64_t slices =
      std::min<int64_t>(std::ssize(series.slices()), std::max<int64_t>(1, length / series.slice()));
  for (int64_t end = slices_per_window; end <= slices; end += slices_per_window) {
    TimeSlice sum;
    for (int64_t i = end - slices_per_window; i < end; ++i) {
      sum.Merge(series.slices()[i]);
    }
    stability.windows.push_back(Summarize(sum, stability.window, rule));
    rates.push_back(stability.windows.back().answers_per_s);
    if (stability.windows.back().latency_ms.has_value()) {
      latencies.push_back(*stability.windows.back().latency_ms);
    }
  }
  stability.throughput_cv = VariationOf(rates);
  stability.latency_cv = VariationOf(latencies);
  if (std::ssize(rates) >= kTrials) {
    stability.is_stable =
        IsSettled(rates, rule.percentage) && IsSettled(latencies, rule.percentage);
  }
  return stability;
}

}  // namespace attention
