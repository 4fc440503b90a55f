// A benchmark's result, for people and for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/load/bench_report.h"

namespace attention {

/// Of one level aligned lines, at most 100 columns but for the texts of errors; of several a table
/// with a line for each, and what is to be said of all.
std::string ToText(const BenchReport& report);

/// Which form of JSON this is; another one whenever a reader of the old would misread it.
inline constexpr char kReportFormat[] = "attend-bench-1";

/// Everything, as README.md of this folder says: durations in milliseconds, throughput per second,
/// histograms that can be merged.
nlohmann::json ToJson(const BenchReport& report);

/// A header and a line for each level; the columns that perf_analyzer has too have its names and
/// units (microseconds).
std::string ToCsv(const BenchReport& report);

/// What ToJson wrote; of a schedule the path alone is known. INVALID_ARGUMENT names what is missing
/// or wrong.
absl::StatusOr<BenchReport> ReadReport(const nlohmann::json& json);

/// The sum of several clients' runs: level by level, which must be as many and of one kind.
/// INVALID_ARGUMENT says which differ. REQUIRES: at least one.
absl::StatusOr<BenchReport> MergeReports(const std::vector<BenchReport>& reports);

}  // namespace attention
