// Prometheus' text exposition format, version 0.0.4
// (https://prometheus.io/docs/instrumenting/exposition_formats/).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/scheduling/bucket_counts.h"

namespace attention {

inline constexpr double kNanosecondsPerSecond = 1e9;

/// Returns the unit of all times in metrics.
inline double Seconds(int64_t ns) { return static_cast<double>(ns) / kNanosecondsPerSecond; }

using MetricLabels = std::vector<std::pair<std::string_view, std::string>>;

/// Writes families one after the other, each with its samples. Names follow Prometheus' rules,
/// which `promtool check metrics` checks in tests/e2e/monitoring/rules_test.py.
class MetricsText {
 public:
  /// Begins a family of `type` "counter", "gauge" or "histogram".
  void Family(std::string_view name, std::string_view type, std::string_view help);

  /// Adds a sample to the family.
  void Sample(const MetricLabels& labels, double value);
  /// Adds a histogram to the family. `per_unit` counted values make one unit of the metric (1e9:
  /// nanoseconds become seconds). An empty histogram is left out, so that unused series take no
  /// space.
  void Sample(const MetricLabels& labels, const BucketCounts& histogram, double per_unit);

  /// Add a family with one sample.
  void Counter(std::string_view name, std::string_view help, double value);
  void Gauge(std::string_view name, std::string_view help, double value);

  const std::string& text() const { return text_; }

 private:
  void Line(std::string_view suffix, const MetricLabels& labels, std::string_view value);

  std::string name_;
  std::string text_;
};

}  // namespace attention
