// Where the results of `bench` come from and go to.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/load/bench_report.h"

namespace attention {

/// Files; "-" is stdout; empty: not wanted.
struct BenchOutputs {
  std::string json;
  std::string csv;
};

/// Prints the report to stdout, unless something else goes there, and writes the files. Errors name
/// the file that cannot be written.
absl::Status WriteReport(const BenchReport& report, const BenchOutputs& outputs);

/// The sum of JSON results. INVALID_ARGUMENT names the file that is none; errors of MergeReports.
absl::StatusOr<BenchReport> MergeFiles(const std::vector<std::string>& paths);

/// How this program was called, without the values of --metadata; empty when unknown.
std::string CommandLine();

}  // namespace attention
