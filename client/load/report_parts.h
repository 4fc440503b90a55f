// What reports of load have in common.
#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_format.h"
#include "client/load/bench_report.h"
#include "client/load/histogram.h"

namespace attention {

struct Quantile {
  const char* name;
  double percent;
};
inline constexpr std::array kQuantiles = {Quantile{"p50", 50.0},   Quantile{"p90", 90.0},
                                          Quantile{"p95", 95.0},   Quantile{"p99", 99.0},
                                          Quantile{"p99.9", 99.9}, Quantile{"p99.99", 99.99}};

/// "mean 1.250  p50 1.199  p90 ...  p99.99 ...  max 9.811 ms".
std::string LatencyText(const Histogram& nanoseconds);

/// {"count", "mean", "min", "max", "p50", ..., "p99.99"}, in milliseconds, and "histogram".
nlohmann::json LatencyJson(const Histogram& nanoseconds);

/// Whether there are values enough for a percentile to be more than one of them: 1 / (1 - q).
bool IsBackedUp(const Histogram& values, double percent);

/// "demo, hidden states [1, 128, 512] FP32, causal, streamed".
std::string SubjectText(const BenchSubject& subject);

/// "closed loop of 4", "open loop of 100 requests/s, poisson arrivals", "8 sessions".
std::string LoadText(const BenchSubject& subject, const LoadOptions& options);

/// "NAME        value" lines.
class ReportLines {
 public:
  void Add(const char* name, const std::string& value) {
    absl::StrAppendFormat(&text_, "%-11s %s\n", name, value);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// A line or two for each kind of failure, and one when the run ended early.
void AddFailures(const LoadResult& result, ReportLines& lines);

std::string VerificationText(const LoadVerification& verification);

/// "p99=50ms met: 12.300 ms", "errors=1% MISSED: 2.50%".
std::string SloText(const SloCheck& check);

/// "highest level that meets p99=50ms: 120 requests/s (126 missed it)".
std::string SearchText(const BenchReport& report);

}  // namespace attention
