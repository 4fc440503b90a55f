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

/// One self-contained file (PageHtml): verdict, key figures, what was asked and where; latency by
/// percentile, throughput and latency over time, by level of load where there are several, and what
/// time was spent on. REQUIRES: at least one report, each with at least one level.
std::string ReportPage(const std::vector<NamedReport>& reports);

}  // namespace attention
