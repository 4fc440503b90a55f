// The report of one benchmark, or of several side by side, as a page.
#pragma once

#include <string>
#include <vector>

#include "client/load/bench_report.h"

namespace attention {

struct NamedReport {
  /// Of the line in charts; where there are several, all differ.
  std::string name;
  BenchReport report;
};

/// One self-contained file (PageHtml): of each report whether it passed, the text that `attend
/// bench` prints, and how it was measured; then charts, which the page draws from the JSON that it
/// carries. REQUIRES: at least one report, each with at least one level.
std::string ReportPage(const std::vector<NamedReport>& reports);

}  // namespace attention
