// Input and output of the results of `bench`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "client/load/bench_report.h"

namespace attention {

/// Paths of files to write; "-" is stdout, empty is none.
struct BenchOutputs {
  std::string json;
  std::string csv;
  std::string html;
  std::string records;
};

/// Returns an error, which names the file, if one cannot be written now.
absl::Status CheckOutputs(const BenchOutputs& outputs);

/// Writes the files, and prints the report to stdout, unless something else goes there. Returns the
/// first error, which names what cannot be written; all else is written, and the report goes to
/// stderr if it is not on stdout.
absl::Status WriteReport(const BenchReport& report, const BenchOutputs& outputs);

/// Reads a file that --json wrote. NOT_FOUND and INVALID_ARGUMENT name the file.
absl::StatusOr<nlohmann::json> ReadReportFile(const std::string& path);

}  // namespace attention
