// `attend bench` against real servers that fare badly, and people who interrupt it.
#include <signal.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/e2e/programs.h"
#include "tests/support/eventually.h"
#include "tests/support/silent_listener.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using BenchProgramTest = ProgramsTest;

nlohmann::json JsonOf(const Outcome& outcome) {
  const nlohmann::json json = nlohmann::json::parse(outcome.out, nullptr, false);
  EXPECT_FALSE(json.is_discarded()) << outcome.out << outcome.err;
  return json;
}

TEST_F(BenchProgramTest, AServerThatIsFrozenForTwoSecondsIsNotAGap) {
  Process bench({ATTEND_BINARY, "bench", "--server", server_.address(), "--model=small",
                 "--shape=1x1x64", "--rate=200", "-z", "4s", "--warmup=0", "--verify-sample=0",
                 "--json=-", "--timeout=2m"});
  ASSERT_TRUE(bench.WaitForStderr("measuring for 4s", kPatience)) << bench.err();
  // The freeze may begin at any time of the first second; the length is what matters.
  EXPECT_FALSE(bench.WaitForExit(std::chrono::milliseconds(500)).has_value());
  server_.process().Signal(SIGSTOP);
  EXPECT_FALSE(bench.WaitForExit(std::chrono::milliseconds(2000)).has_value());
  server_.process().Signal(SIGCONT);
  ASSERT_EQ(bench.WaitForExit(kPatience), 0) << bench.err();
  const nlohmann::json json = nlohmann::json::parse(bench.out());
  // All that were due were sent, answered and counted, those of the freeze from when they were due.
  EXPECT_EQ(json["due"], 800);
  EXPECT_EQ(json["latency_ms"]["count"], 800);
  EXPECT_EQ(json["not_sent"], 0);
  EXPECT_GE(json["latency_ms"]["p99"], 1900.0);
  EXPECT_GE(json["latency_ms"]["max"], 1950.0);
  // Half of the run: the median of those that came into it waited for a second.
  EXPECT_GE(json["latency_ms"]["p90"], 1000.0);
  int64_t due = 0;
  for (const nlohmann::json& slice : json["series"]["slices"]) {
    due += slice["due"].get<int64_t>();
  }
  EXPECT_EQ(due, 800);
}

TEST_F(BenchProgramTest, TheFirstInterruptReportsWhatWasMeasured) {
  for (const int signal : {SIGINT, SIGTERM}) {
    Process bench({ATTEND_BINARY, "bench", "--server", server_.address(), "--shape=1x16x512", "-z",
                   "1h", "--warmup=0", "--json=-"});
    ASSERT_TRUE(bench.WaitForStderr("measuring for 1h after 0 of warm-up", kPatience))
        << bench.err();
    EXPECT_TRUE(Eventually([&] {
      return !absl::StrContains(Attend({"top", "--count=1"}).out, "so far     0 answered");
    }));
    bench.Signal(signal);
    ASSERT_EQ(bench.WaitForExit(kPatience), 1) << bench.err();
    const nlohmann::json json = nlohmann::json::parse(bench.out());
    EXPECT_EQ(json["stopped"], true);
    EXPECT_GT(json["answers"], 0);
    EXPECT_LT(json["window_s"], 3600.0);
    EXPECT_EQ(json["succeeded"], false) << "it was cut short";
  }
}

TEST_F(BenchProgramTest, AFileThatCannotBeWrittenIsRefusedBeforeTheLoad) {
  for (const std::string& path : {PathOf("absent/a.json"), folder_.path()}) {
    const Outcome outcome = Attend({"bench", "--model=small", "--shape=1x8x64", "-n", "1", "--csv",
                                    PathOf("a.csv"), "--json", path});
    EXPECT_EQ(outcome.exit_code, 4);
    EXPECT_THAT(outcome.err, HasSubstr(path + ": cannot be written"));
    EXPECT_THAT(outcome.err, Not(HasSubstr("measuring")));
  }
}

TEST_F(BenchProgramTest, AClosedStandardOutputDoesNotLoseTheFile) {
  const std::string path = PathOf("a.json");
  const std::string command = std::string(ATTEND_BINARY) + " bench --server " + server_.address() +
                              " --model=small --shape=1x8x64 -n 1 --json " + path + " | true";
  Process shell({"/bin/sh", "-c", command});
  ASSERT_TRUE(shell.WaitForExit(kPatience).has_value());
  std::ifstream file(path);
  EXPECT_EQ(nlohmann::json::parse(file, nullptr, false)["answers"], 1);
}

TEST_F(BenchProgramTest, TheSecondInterruptEndsIt) {
  Process bench({ATTEND_BINARY, "bench", "--server", server_.address(), "--shape=1x16x512", "-z",
                 "60s", "--warmup=0", "--verify-sample=0"});
  ASSERT_TRUE(bench.WaitForStderr("measuring for", kPatience)) << bench.err();
  server_.process().Signal(SIGSTOP);
  bench.Signal(SIGINT);
  ASSERT_TRUE(bench.WaitForStderr("waiting for requests in flight", kPatience)) << bench.err();
  // Interrupts of the first half second are one.
  std::optional<int> exit_code;
  EXPECT_TRUE(Eventually([&] {
    bench.Signal(SIGINT);
    exit_code = bench.WaitForExit(std::chrono::milliseconds(200));
    return exit_code.has_value();
  }));
  EXPECT_EQ(exit_code, 128 + SIGINT);
  server_.process().Signal(SIGCONT);
}

// The deadline of a connection is 15 s, and that of the first request 1 h.
TEST(BenchPreparationTest, TheFirstInterruptEndsItBeforeAnythingIsMeasured) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const SilentListener nobody;
    Process bench(
        {ATTEND_BINARY, "bench", "--server", nobody.address(), "--shape=1x1x64", "--timeout=1h"});
    ASSERT_TRUE(nobody.WaitForConnection(kPatience));
    bench.Signal(signal);
    EXPECT_EQ(bench.WaitForExit(kPatience), 128 + signal) << bench.err();
  }
}

TEST_F(BenchProgramTest, CallsThatAreNotAnsweredAreAFailure) {
  Process bench({ATTEND_BINARY, "bench", "--server", server_.address(), "--model=small",
                 "--shape=1x1x64", "-z", "1h", "--warmup=0", "--verify-sample=0", "--timeout=500ms",
                 "--slo=max=1h", "--json=-"});
  ASSERT_TRUE(bench.WaitForStderr("measuring for", kPatience)) << bench.err();
  server_.process().Signal(SIGKILL);
  ASSERT_EQ(bench.WaitForExit(kPatience), 1) << bench.err();  // it gives up
  const nlohmann::json json = nlohmann::json::parse(bench.out());
  EXPECT_EQ(json["slo"][0]["met"], false);
  EXPECT_GT(json["slo"][0]["unanswered"], 200);
  const Outcome gone = Attend({"bench", "--model=small", "--shape=1x1x64", "-n", "1"});
  EXPECT_EQ(gone.exit_code, 4);
  EXPECT_THAT(gone.err, HasSubstr("UNAVAILABLE"));
}

TEST_F(BenchProgramTest, ARangeIsATableAndAFileOfLines) {
  const std::string path = PathOf("levels.csv");
  const Outcome outcome = Attend({"bench", "--model=small", "--shape=1x8x64", "-c", "1:5:2", "-n",
                                  "40", "--warmup=10ms", "--csv", path});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("3 levels of a closed loop"), HasSubstr("p99.9 ms")));
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(line);
  }
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_THAT(lines[0], HasSubstr("Concurrency,Request Rate,Inferences/Second"));
  EXPECT_EQ(lines[3].substr(0, 3), "5,,");
  EXPECT_THAT(lines[3], HasSubstr(",40,0,"));  // answers, errors
}

TEST_F(BenchProgramTest, AMissedTargetIsAnExitCode) {
  const std::vector<std::string> bench = {
      "bench", "--model=small", "--shape=1x8x64", "-n", "50", "-c", "2", "--json=-"};
  std::vector<std::string> easy = bench, hard = bench;
  easy.push_back("--slo=p95=1m");
  hard.push_back("--slo=p50=1us");
  const Outcome met = Attend(easy), missed = Attend(hard);
  EXPECT_EQ(met.exit_code, 0) << met.err;
  EXPECT_EQ(missed.exit_code, 3) << missed.err;
  const nlohmann::json json = JsonOf(missed);
  EXPECT_EQ(json["slo"][0]["met"], false);
  EXPECT_EQ(json["latency_ms"]["count"], 50);
  EXPECT_TRUE(json["errors"].empty());
}

TEST_F(BenchProgramTest, ASearchFindsTheHighestRateOfItsRange) {
  Outcome outcome;
  int64_t ms = 100;
  EXPECT_TRUE(Eventually([&] {
    ms *= 2;  // until each level has answers in that time
    outcome = Attend({"bench", "--model=small", "--shape=1x8x64", "--rate=20:80:20", "--search",
                      "--slo=max=1m", "-z", absl::StrCat(ms, "ms"), "--warmup=50ms", "--json=-",
                      "--tag=run=7"});
    return outcome.exit_code == 0 && JsonOf(outcome)["search"]["highest_met"] == 80.0;
  }));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json json = JsonOf(outcome);
  EXPECT_EQ(json["search"]["highest_met"], 80.0);
  EXPECT_EQ(json["levels"].size(), 2u);
  EXPECT_EQ(json["tags"]["run"], "7");
  EXPECT_THAT(json["command"].get<std::string>(), HasSubstr("bench --server="));
}

TEST_F(BenchProgramTest, AScheduleIsSentAndAWrongLineIsNamed) {
  const std::string path = PathOf("schedule");
  std::ofstream(path) << "0 4\n20 8\n20 4\n1000 16\n";
  const Outcome outcome =
      Attend({"bench", "--model=small", "--shape=1x1x64", "--schedule", path, "--json=-"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json json = JsonOf(outcome);
  EXPECT_EQ(json["due"], 4);
  EXPECT_EQ(json["options"]["schedule"], path);
  std::ofstream(path) << "0\n5\n4\n";
  const Outcome wrong = Attend({"bench", "--shape=1x1x512", "--schedule", path});
  EXPECT_EQ(wrong.exit_code, 4);
  EXPECT_THAT(wrong.err,
              HasSubstr("schedule, line 3: expected milliseconds since the start, from 5 on"));
}

}  // namespace
}  // namespace attention
