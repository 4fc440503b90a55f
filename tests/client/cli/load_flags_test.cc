#include "client/cli/flags/load_flags.h"

#include <algorithm>
#include <fstream>

#include "client/load/window_plan.h"
#include "gmock/gmock.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LoadFlagsTest : public ::testing::Test {
 protected:
  /// The parser's complaint, or that of the check; empty when there is none.
  std::string Parse(std::vector<std::string> arguments) {
    flags_ = LoadFlags();
    CLI::App app;
    AddLoadFlags(app, flags_);
    std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them last first
    try {
      app.parse(arguments);
    } catch (const CLI::ParseError& error) {
      return error.what();
    }
    return std::string(CheckLoadFlags(flags_).message());
  }

  BenchPlan Plan(std::vector<std::string> arguments) {
    EXPECT_EQ(Parse(std::move(arguments)), "");
    const auto plan = PlanOf(flags_, 9);
    EXPECT_THAT(plan, IsOk());
    return *plan;
  }

  LoadFlags flags_;
};

TEST_F(LoadFlagsTest, IsAClosedLoopOfOneForTenSecondsAfterOne) {
  const BenchPlan plan = Plan({});
  EXPECT_FALSE(plan.options.open_loop.has_value());
  EXPECT_EQ(plan.options.concurrency, 1);
  EXPECT_EQ(plan.options.duration, absl::Seconds(10));
  EXPECT_EQ(plan.options.warmup, absl::Seconds(1));
  EXPECT_THAT(plan.levels, IsEmpty());
  EXPECT_FALSE(plan.search.has_value());
  EXPECT_FALSE(plan.options.stability.has_value());
}

TEST_F(LoadFlagsTest, ARateMakesAnOpenLoop) {
  const BenchPlan plan = Plan({"-r", "250.5", "--arrivals=poisson", "--max-in-flight=7"});
  ASSERT_TRUE(plan.options.open_loop.has_value());
  EXPECT_EQ(plan.options.open_loop->arrivals.rate_per_s, 250.5);
  EXPECT_EQ(plan.options.open_loop->arrivals.arrivals, Arrivals::kPoisson);
  EXPECT_EQ(plan.options.open_loop->arrivals.seed, 9u);
  EXPECT_EQ(plan.options.open_loop->max_in_flight, 7);
}

TEST_F(LoadFlagsTest, RangesAreLevels) {
  EXPECT_THAT(Plan({"-c", "1:16:5"}).levels, ElementsAre(1, 6, 11, 16));
  EXPECT_THAT(Plan({"--concurrency=2:4"}).levels, ElementsAre(2, 3, 4));
  EXPECT_THAT(Plan({"-r", "100:500:200"}).levels, ElementsAre(100, 300, 500));
  EXPECT_THAT(Plan({"--rate=100:300"}).levels, ElementsAre(100, 200, 300));
  EXPECT_THAT(Plan({"--rate=0.1:0.3:0.1"}).levels,
              ElementsAre(DoubleEq(0.1), DoubleEq(0.2), DoubleEq(0.1 + 2 * 0.1)));
}

TEST_F(LoadFlagsTest, ANumberOfRequestsNeedsNoDurationNorWarmup) {
  const LoadOptions counted = Plan({"-n", "500"}).options;
  EXPECT_EQ(counted.requests, 500);
  EXPECT_EQ(counted.duration, absl::InfiniteDuration());
  EXPECT_EQ(counted.warmup, absl::ZeroDuration());
  const LoadOptions both = Plan({"--requests=500", "-z", "3s"}).options;
  EXPECT_EQ(both.duration, absl::Seconds(3));
  EXPECT_EQ(Plan({"-z", "2500ms"}).options.duration, absl::Milliseconds(2500));
}

TEST_F(LoadFlagsTest, AnyWordOfStabilityMakesTrials) {
  const auto by_percent = Plan({"-s", "5", "--percentile=95"}).options.stability;
  ASSERT_TRUE(by_percent.has_value());
  EXPECT_EQ(by_percent->percentage, 5.0);
  EXPECT_EQ(by_percent->percentile, 95.0);
  EXPECT_EQ(by_percent->max_trials, 10);
  EXPECT_FALSE(by_percent->is_required);
  EXPECT_EQ(Plan({"--max-trials=4"}).options.stability->max_trials, 4);
  EXPECT_TRUE(Plan({"--require-stable"}).options.stability->is_required);
}

TEST_F(LoadFlagsTest, TargetsMayBeRepeated) {
  const BenchPlan plan = Plan({"--slo", "p99=50ms", "--slo=errors=1%"});
  ASSERT_EQ(plan.slo.size(), 2u);
  EXPECT_EQ(plan.slo[0].text, "p99=50ms");
  EXPECT_EQ(plan.slo[1].of, SloTarget::Of::kErrors);
}

TEST_F(LoadFlagsTest, ASearchIsOfRatesUnlessConcurrencyIsSaid) {
  const BenchPlan free = Plan({"--search", "--slo=max=1s"});
  ASSERT_TRUE(free.search.has_value());
  EXPECT_EQ(free.search->lowest, 10.0);
  EXPECT_FALSE(free.search->highest.has_value());
  EXPECT_TRUE(free.options.open_loop.has_value());
  const BenchPlan within = Plan({"--search", "--slo=max=1s", "-c", "2:64:4"});
  EXPECT_EQ(within.search->lowest, 2.0);
  EXPECT_EQ(within.search->highest, 64.0);
  EXPECT_EQ(within.search->resolution, 4.0);
  EXPECT_FALSE(within.options.open_loop.has_value());
  EXPECT_THAT(within.levels, IsEmpty());
}

TEST_F(LoadFlagsTest, ARampLastsAsLongAsTheDuration) {
  const LoadOptions options = Plan({"--ramp=500:100", "-z", "30s", "--warmup=2s"}).options;
  const ArrivalOptions& arrivals = options.open_loop->arrivals;
  EXPECT_EQ(arrivals.rate_per_s, 500.0);
  EXPECT_EQ(arrivals.ramp->to_rate_per_s, 100.0);
  EXPECT_EQ(arrivals.ramp->start_s, 2.0);
  EXPECT_EQ(arrivals.ramp->length_s, 30.0);
}

TEST_F(LoadFlagsTest, AScheduleIsSentToItsEnd) {
  const TempFolder folder;
  const std::string path = folder.path() + "/schedule";
  std::ofstream(path) << "0\n500\n1000\n2000\n";
  const LoadOptions options = Plan({"--schedule", path}).options;
  EXPECT_EQ(options.duration, absl::InfiniteDuration());
  EXPECT_EQ(options.warmup, absl::ZeroDuration());
  EXPECT_EQ(options.open_loop->arrivals.trace->times.size(), 4u);
  EXPECT_EQ(options.open_loop->arrivals.rate_per_s, 2.0);
}

TEST_F(LoadFlagsTest, OfAScheduleSoManyRequestsAreSent) {
  const TempFolder folder;
  const std::string path = folder.path() + "/schedule";
  std::ofstream(path) << "0\n500\n1000\n1000\n1000\n";
  const LoadOptions options = Plan({"--schedule", path, "-n", "2", "--warmup", "200ms"}).options;
  EXPECT_EQ(options.open_loop->arrivals.trace->times.size(), 3u) << "one of them warms up";
  EXPECT_TRUE(PlanOpenWindow(options, {}).awaits_answers);
}

TEST_F(LoadFlagsTest, SaysWhatIsWrong) {
  const struct {
    std::vector<std::string> arguments;
    const char* text;
  } cases[] = {
      {{"--rate=5", "-c", "2"}, "excludes"},
      {{"--ramp=1:5", "--rate=2"}, "excludes"},
      {{"--arrivals=poisson", "-c", "2"}, "excludes"},
      {{"--arrivals=poisson"}, "--arrivals needs --rate"},
      {{"--max-in-flight=5"}, "--max-in-flight needs --rate"},
      {{"--rate=0"}, "expected N, START:END"},
      {{"--rate=1:2:3:4"}, "expected N, START:END"},
      {{"--rate=5:4"}, "found \"5:4\""},
      {{"--rate=nan"}, "found \"nan\""},
      {{"--rate=1:2:inf"}, "found \"inf\""},
      {{"-c", "1.5"}, "whole numbers"},
      {{"-c", "1:100000:1"}, "at most 1000 levels"},
      {{"--ramp=5"}, "expected FROM:TO"},
      {{"--arrivals=sometimes", "--rate=5"}, "sometimes"},
      {{"--slo=p99"}, "expected a target such as p99=50ms"},
      {{"--search"}, "--search needs a target: --slo"},
      {{"--search", "--slo=max=1s", "--ramp=1:2"}, "--search cannot be combined with --ramp"},
      {{"--percentile=99"}, "--percentile needs"},
      {{"-s", "5", "-n", "100"}, "trials"},
      {{"--ramp=1:2", "-n", "100"}, "--ramp needs --duration"},
  };
  for (const auto& [arguments, text] : cases) {
    EXPECT_THAT(Parse(arguments), HasSubstr(text)) << ::testing::PrintToString(arguments);
  }
}

}  // namespace
}  // namespace attention
