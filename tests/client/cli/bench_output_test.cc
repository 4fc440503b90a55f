#include "client/cli/show/bench_output.h"

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/client/load/sample_reports.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string ContentOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(WriteReportTest, BytesThatAreNotUtf8DoNotLoseTheResult) {
  const TempFolder folder;
  BenchReport report = Report();
  report.command = "attend bench --tag=a=\xFF";
  report.tags["a"] = "\xFF";
  report.levels[0].result.failures["UNKNOWN"] = {
      .count = 1, .first_text = "\xC3(", .latency_ns = {}};
  const BenchOutputs outputs{
      .json = folder.path() + "/a.json", .csv = "", .html = folder.path() + "/a.html"};
  EXPECT_THAT(WriteReport(report, outputs), IsOk());
  const auto json = ReadReportFile(outputs.json);
  ASSERT_THAT(json, IsOk());
  EXPECT_EQ((*json)["tags"]["a"], "\xEF\xBF\xBD");
  EXPECT_THAT(ContentOf(outputs.html), StartsWith("<!DOCTYPE html>"));
}

TEST(WriteReportTest, AFileThatCannotBeWrittenLosesNoOther) {
  const TempFolder folder;
  const BenchOutputs outputs{.json = folder.path() + "/absent/a.json",
                             .csv = folder.path() + "/a.csv",
                             .html = folder.path() + "/a.html"};
  EXPECT_THAT(WriteReport(Report(), outputs),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("a.json: cannot be written")));
  EXPECT_THAT(ContentOf(outputs.csv), StartsWith("Concurrency,"));
  EXPECT_THAT(ContentOf(outputs.html), StartsWith("<!DOCTYPE html>"));
}

TEST(WriteReportTest, AnErrorOfTheServerCannotControlTheTerminal) {
  BenchReport report = Report();
  report.levels[0].result.failures["UNKNOWN"] = {
      .count = 1, .first_text = "a\x1b]0;pwn\x07\u202e\nverified    agrees", .latency_ns = {}};
  ::testing::internal::CaptureStdout();
  EXPECT_THAT(WriteReport(report, {}), IsOk());
  EXPECT_THAT(::testing::internal::GetCapturedStdout(),
              HasSubstr("1 x UNKNOWN: a␛]0;pwn␇<U+202E> verified    agrees\n"));
}

}  // namespace
}  // namespace attention
