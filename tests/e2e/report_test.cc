// `attend bench --html` and `attend report`.
#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/e2e/programs.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using ReportCommandTest = ProgramsTest;

std::string ContentOf(const std::string& path) {
  std::ostringstream content;
  content << std::ifstream(path).rdbuf();
  return content.str();
}

TEST_F(ReportCommandTest, ASavedResultIsShownAsTheRunWas) {
  const std::string json = PathOf("saved.json");
  const std::string html = PathOf("saved.html");
  const Outcome measured = Attend({"bench", "--shape=1x4x512", "-n", "20", "--metadata",
                                   "key=secret", "--json", json, "--html", html});
  ASSERT_EQ(measured.exit_code, 0) << measured.out << measured.err;
  const std::string page = ContentOf(html);
  EXPECT_THAT(page, AllOf(HasSubstr("<!DOCTYPE html>"), HasSubstr("--metadata key=..."),
                          Not(HasSubstr("secret"))));
  EXPECT_EQ(RunAttend({"report", json}).out, measured.out);
  EXPECT_EQ(RunAttend({"report", json, "--html", "-"}).out, page);
}

TEST_F(ReportCommandTest, AResultOfAnotherCannotControlTheTerminal) {
  const std::string path = PathOf("foreign.json");
  std::ofstream(path)
      << R"({"format": "attend-bench-1", "text": "a\u001b]0;pwn\u0007\u202e\nb\n"})";
  EXPECT_EQ(RunAttend({"report", path}).out, "a␛]0;pwn␇<U+202E>\nb\n");
}

TEST_F(ReportCommandTest, NamesTheFileThatIsNoResult) {
  const Outcome absent = RunAttend({"report", PathOf("absent.json")});
  EXPECT_EQ(absent.exit_code, 1);
  EXPECT_THAT(absent.err, AllOf(HasSubstr("NOT_FOUND"), HasSubstr("absent.json: No such file")));
  const std::string path = PathOf("other.json");
  std::ofstream(path) << "{\"a\": 1}";
  const Outcome other = RunAttend({"report", path, "--html", PathOf("other.html")});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.err, AllOf(HasSubstr("other.json"), HasSubstr("not a result of attend bench")));
  EXPECT_EQ(ContentOf(PathOf("other.html")), "");
}

TEST_F(ReportCommandTest, RecordsOfAllCallsAreWritten) {
  const std::string path = PathOf("records.csv");
  const Outcome outcome =
      Attend({"bench", "--shape=1x4x512", "-c", "2", "-n", "50", "--records", path});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::string text = ContentOf(path);
  EXPECT_THAT(text, HasSubstr("level,call,code,measured,due_ms"));
  // A call that was in flight when the window ended may have ended, too.
  EXPECT_GE(std::count(text.begin(), text.end(), '\n'), 51);
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 52);
}

TEST_F(ReportCommandTest, SaysWhereItCannotWrite) {
  const std::string json = PathOf("once.json");
  ASSERT_EQ(Attend({"bench", "--shape=1x4x512", "-n", "5", "--json", json}).exit_code, 0);
  const Outcome outcome = RunAttend({"report", json, "--html", PathOf("absent/folder.html")});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("absent/folder.html: cannot be written"));
}

TEST_F(ReportCommandTest, OnlyOneOutputGoesToStdout) {
  const Outcome outcome = Attend({"bench", "--json=-", "--html=-"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err,
              HasSubstr("only one of --json, --csv, --html and --records goes to stdout"));
}

}  // namespace
}  // namespace attention
