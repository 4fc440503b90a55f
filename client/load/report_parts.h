// What reports of load have in common.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_format.h"
#include "client/load/histogram.h"
#include "client/load/load_result.h"
#include "client/load/report.h"

namespace attention {

using Failures = std::map<std::string, FailureTally>;

inline double Milliseconds(double nanoseconds) { return nanoseconds / 1e6; }

/// 0 when there is nothing to divide by.
inline double Share(double part, double whole) { return whole == 0.0 ? 0.0 : part / whole; }

/// "mean 1.250  p50 1.199  p90 ...  p99.9 ...  max 9.811 ms".
std::string LatencyText(const Histogram& nanoseconds);

/// {"count", "mean", "min", "max", "p50", "p90", "p95", "p99", "p99.9"}, in milliseconds.
nlohmann::json LatencyJson(const Histogram& nanoseconds);

/// Of the whole run.
int64_t NumFailures(const Failures& failures);

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

/// A line or two for each kind of failure, and one when the run gave up.
void AddFailures(const Failures& failures, bool gave_up, ReportLines& lines);
/// "errors", "error_texts" and "error_latency_ms", by code.
void AddFailures(const Failures& failures, nlohmann::json& json);

std::string VerificationText(const LoadVerification& verification);
nlohmann::json VerificationJson(const LoadVerification& verification);

/// Why the numbers may be the client's own, when it was busy; else empty.
std::string BusyWarning(double client_cpu_share);
/// "43% of one core", and the warning.
std::string ClientText(double client_cpu_share, const std::string& warning);

}  // namespace attention
