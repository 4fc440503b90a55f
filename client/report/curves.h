// Which levels of which reports are drawn, and what they are called.
#pragma once

#include <string>
#include <vector>

#include "client/load/bench_report.h"
#include "client/report/report_page.h"

namespace attention {

/// One line in charts that compare; borrows all but the name.
struct Curve {
  std::string name;
  const BenchSubject* subject = nullptr;
  const BenchLevel* level = nullptr;
};

/// "500/s" or "8 under way".
std::string LevelName(const BenchLevel& level);

/// The level that says most of a report: of those that met their targets the highest, else the one
/// that comes nearest: the lowest.
const BenchLevel& MainLevel(const BenchReport& report);

/// Of one report its levels, of several the main level of each; lowest first, and no more than can
/// be told apart: of more levels evenly chosen ones, the first and the last among them.
std::vector<Curve> CurvesOf(const std::vector<NamedReport>& reports);

/// The levels of a report, lowest first.
std::vector<const BenchLevel*> SortedLevels(const BenchReport& report);

}  // namespace attention
