#include "server/observability/metrics_text.h"

#include <charconv>
#include <cmath>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace attention {
namespace {

// Returns the shortest text that reads back as the same number.
std::string Number(double value) {
  if (!std::isfinite(value)) {
    return std::isnan(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf";
  }
  char buffer[32];
  const std::to_chars_result result = std::to_chars(buffer, std::end(buffer), value);
  return std::string(buffer, result.ptr);
}

std::string Escaped(const std::string& value) {
  std::string escaped;
  for (const char c : value) {
    if (c == '\n') {
      escaped += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') {
      escaped += '\\';
    }
    escaped += c;
  }
  return escaped;
}

}  // namespace

void MetricsText::Family(std::string_view name, std::string_view type, std::string_view help) {
  name_ = name;
  absl::StrAppend(&text_, "# HELP ", name_, " ", std::string(help), "\n# TYPE ", name_, " ",
                  std::string(type), "\n");
}

void MetricsText::Line(std::string_view suffix, const MetricLabels& labels,
                       std::string_view value) {
  absl::StrAppend(&text_, name_, std::string(suffix));
  const char* separator = "{";
  for (const auto& [key, label] : labels) {
    absl::StrAppend(&text_, separator, std::string(key), "=\"", Escaped(label), "\"");
    separator = ",";
  }
  absl::StrAppend(&text_, labels.empty() ? " " : "} ", std::string(value), "\n");
}

void MetricsText::Sample(const MetricLabels& labels, double value) {
  Line("", labels, Number(value));
}

void MetricsText::Sample(const MetricLabels& labels, const BucketCounts& histogram,
                         double per_unit) {
  const std::vector<int64_t>& counts = histogram.counts();
  int64_t cumulative = 0;
  for (const int64_t count : counts) {
    cumulative += count;
  }
  if (cumulative == 0) {
    return;
  }
  MetricLabels with_bound = labels;
  with_bound.emplace_back("le", "");
  int64_t up_to = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    up_to += counts[i];
    with_bound.back().second = i + 1 == counts.size()
                                   ? "+Inf"
                                   : Number(static_cast<double>(histogram.bounds()[i]) / per_unit);
    Line("_bucket", with_bound, absl::StrCat(up_to));
  }
  Line("_sum", labels, Number(static_cast<double>(histogram.sum()) / per_unit));
  Line("_count", labels, absl::StrCat(cumulative));
}

void MetricsText::Counter(std::string_view name, std::string_view help, double value) {
  Family(name, "counter", help);
  Sample({}, value);
}

void MetricsText::Gauge(std::string_view name, std::string_view help, double value) {
  Family(name, "gauge", help);
  Sample({}, value);
}

}  // namespace attention
