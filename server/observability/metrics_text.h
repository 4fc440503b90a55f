// Prometheus' text exposition format, version 0.0.4
// (https://prometheus.io/docs/instrumenting/exposition_formats/).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/observability/bucket_counts.h"

namespace attention {

using MetricLabels = std::vector<std::pair<std::string_view, std::string>>;

/// Families one after the other, each with its samples. Names follow Prometheus' rules, which
/// `promtool check metrics` knows: tests/server/observability/metrics_test.py asks it.
class MetricsText {
 public:
  /// Begins a family of `type` "counter", "gauge" or "histogram".
  void Family(std::string_view name, std::string_view type, std::string_view help);

  /// A sample of the family.
  void Sample(const MetricLabels& labels, double value);
  /// A histogram of the family, whose unit is so many of the values' (1e9: nanoseconds become
  /// seconds).
  /// Nothing when nothing was observed: what never happens in a series takes no room.
  void Sample(const MetricLabels& labels, const BucketCounts& histogram, double per_unit);

  /// A family of one sample.
  void Counter(std::string_view name, std::string_view help, double value);
  void Gauge(std::string_view name, std::string_view help, double value);

  const std::string& text() const { return text_; }

 private:
  void Line(std::string_view suffix, const MetricLabels& labels, std::string_view value);

  std::string name_;
  std::string text_;
};

}  // namespace attention
