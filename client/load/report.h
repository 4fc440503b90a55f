// The result of a benchmark as text, JSON and CSV.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "client/load/bench_report.h"

namespace attention {

/// Returns one level as aligned lines, of at most 100 columns except for error texts; several
/// levels as a table with a line for each, and remarks.
std::string ToText(const BenchReport& report);

/// The version of the JSON. It changes whenever a reader of the old version would misread the new
/// one.
inline constexpr char kReportFormat[] = "attend-bench-1";

/// Returns all results, ToText included, as README.md of this folder says: durations in
/// milliseconds, throughput per second, histograms whose counts can be added up.
nlohmann::json ToJson(const BenchReport& report);

/// Returns a header and a line for each level; the columns that perf_analyzer has too have its
/// names and units (microseconds).
std::string ToCsv(const BenchReport& report);

/// Returns a header and a line for each record of each level, as README.md of this folder says.
std::string RecordsCsv(const BenchReport& report);

}  // namespace attention
