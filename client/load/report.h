// A benchmark's result, for people and for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "client/load/bench_report.h"

namespace attention {

/// Of one level aligned lines, at most 100 columns but for the texts of errors; of several a table
/// with a line for each, and what is to be said of all.
std::string ToText(const BenchReport& report);

/// Which form of JSON this is; another one whenever a reader of the old would misread it.
inline constexpr char kReportFormat[] = "attend-bench-1";

/// Everything, ToText included, as README.md of this folder says: durations in milliseconds,
/// throughput per second, histograms whose counts can be added up.
nlohmann::json ToJson(const BenchReport& report);

/// A header and a line for each level; the columns that perf_analyzer has too have its names and
/// units (microseconds).
std::string ToCsv(const BenchReport& report);

}  // namespace attention
