// Input and output of the results of `bench`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/load/bench.h"
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

/// Quotes `word`, so that a shell reads it back unchanged.
std::string ShellQuoted(const std::string& word);

/// Returns `words` as a command line, quoted for a shell, without the values of --metadata, however
/// the parser accepts them: -m A=B C=D, -mA=B, --metadata=A=B.
std::string WithoutSecrets(const std::vector<std::string>& words);

/// Returns the command line of this program, WithoutSecrets; empty if unknown.
std::string CommandLine();

/// Prints a message for each level to stderr, and progress when that is a terminal.
/// The first interrupt (Ctrl-C) or SIGTERM ends the measurement, whose result is reported; the
/// second ends the program. REQUIRES: called once in a program.
BenchWatch WatchFromTerminal();

}  // namespace attention
