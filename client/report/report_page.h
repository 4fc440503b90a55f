// The report of one benchmark, or of several side by side, as a page.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace attention {

struct NamedReport {
  /// The name of its line in charts; where there are several reports, all names differ.
  std::string name;
  /// What ToJson(BenchReport) made, perhaps read from a file.
  nlohmann::json result;
};

/// One self-contained file (PageHtml): of each report whether it passed, the text that `attend
/// bench` prints, and how it was measured; then charts, which the page draws from the JSON that it
/// carries. INVALID_ARGUMENT names the report that lacks something. REQUIRES: at least one report.
absl::StatusOr<std::string> ReportPage(const std::vector<NamedReport>& reports);

}  // namespace attention
