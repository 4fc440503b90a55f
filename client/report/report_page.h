// The report of one benchmark, or of several side by side, as a page.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace attention {

struct NamedReport {
  /// The name of the report in charts. Several reports have different names.
  std::string name;
  /// The JSON of a BenchReport (ToJson).
  nlohmann::json result;
};

/// Returns a self-contained HTML file (PageHtml). It shows for each report whether it passed, the
/// text that `attend bench` prints, and how it was measured; then charts, which scripts draw from
/// the JSON in the page. INVALID_ARGUMENT names a report that lacks a member. REQUIRES: at least
/// one report.
absl::StatusOr<std::string> ReportPage(const std::vector<NamedReport>& reports);

}  // namespace attention
