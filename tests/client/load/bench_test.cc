// Ranges and searches, over a server that is only a formula.
#include "client/load/bench.h"

#include <vector>

#include "gmock/gmock.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::Le;

/// Answers within 10 ms up to `capacity`, and within 1 s above it.
class FormulaRunner : public BenchRunner {
 public:
  explicit FormulaRunner(double capacity) : capacity_(capacity) {}

  BenchSubject Subject() const override { return {.model = "formula"}; }

  absl::StatusOr<BenchLevel> Run(const LoadOptions& options, const LoadControl&) override {
    BenchLevel level;
    level.options = options;
    level.result.window = absl::Seconds(1);
    level.result.answers = 100;
    for (int i = 0; i < 100; ++i) {
      level.result.latency_ns.Record(LevelValue(options) <= capacity_ ? 10'000'000 : 1'000'000'000);
    }
    tried_.push_back(LevelValue(options));
    if (is_overloaded_) {
      Overload(level.result);
    }
    level.result.was_stopped = std::ssize(tried_) == stop_after_;
    return level;
  }

  /// From now on 400 requests are due in the second half of the window, of which 100 are answered.
  void BecomeOverloaded() { is_overloaded_ = true; }
  void StopAfter(int levels) { stop_after_ = levels; }
  const std::vector<double>& tried() const { return tried_; }

 private:
  static void Overload(LoadResult& result) {
    result.pace.emplace().span = result.window;
    TimeSlice& half = result.series.At(absl::ZeroDuration());
    half.due = 400;
    half.answers = 100;
    result.unfinished_ns.Record(1'000'000'000);
  }

  const double capacity_;
  bool is_overloaded_ = false;
  int stop_after_ = 0;
  std::vector<double> tried_;
};

BenchPlan PlanOfRates() {
  BenchPlan plan;
  plan.options.open_loop = OpenLoopOptions{.arrivals = {.rate_per_s = 10.0}};
  plan.slo = {*ParseSlo("p99=50ms")};
  return plan;
}

TEST(BenchTest, ASearchDoublesAndThenHalvesTheDistanceToFivePercent) {
  FormulaRunner runner(1234.0);
  BenchPlan plan = PlanOfRates();
  plan.search = SearchPlan{.lowest = 10.0, .highest = {}, .resolution = {}};
  const auto report = RunBench(runner, plan, {});
  ASSERT_THAT(report, IsOk());
  EXPECT_THAT(std::vector<double>(runner.tried().begin(), runner.tried().begin() + 9),
              ElementsAre(10, 20, 40, 80, 160, 320, 640, 1280, 960));
  ASSERT_TRUE(report->search.has_value());
  EXPECT_THAT(*report->search->highest_met, Le(1234.0));
  EXPECT_THAT(*report->search->lowest_missed, Gt(1234.0));
  EXPECT_LE(*report->search->lowest_missed, 1.05 * *report->search->highest_met);
  EXPECT_EQ(report->levels.size(), runner.tried().size());
  EXPECT_TRUE(Succeeded(*report));
}

TEST(BenchTest, ASearchWithinARangeEndsAtItsResolution) {
  FormulaRunner runner(333.0);
  BenchPlan plan = PlanOfRates();
  plan.search = SearchPlan{.lowest = 100.0, .highest = 500.0, .resolution = 50.0};
  const auto report = RunBench(runner, plan, {});
  ASSERT_THAT(report, IsOk());
  EXPECT_THAT(runner.tried(), ElementsAre(100, 500, 300, 400, 350));
  EXPECT_EQ(report->search->highest_met, 300.0);
  EXPECT_EQ(report->search->lowest_missed, 350.0);
}

TEST(BenchTest, ASearchOfWhatAlwaysSufficesEndsAtTheTop) {
  FormulaRunner runner(1e9);
  BenchPlan plan = PlanOfRates();
  plan.search = SearchPlan{.lowest = 100.0, .highest = 500.0, .resolution = {}};
  const auto report = RunBench(runner, plan, {});
  ASSERT_THAT(report, IsOk());
  EXPECT_THAT(runner.tried(), ElementsAre(100, 500));
  EXPECT_EQ(report->search->highest_met, 500.0);
  EXPECT_FALSE(report->search->lowest_missed.has_value());
}

TEST(BenchTest, ASearchWhoseLowestMissesFails) {
  FormulaRunner runner(5.0);
  BenchPlan plan = PlanOfRates();
  plan.search = SearchPlan{.lowest = 10.0, .highest = {}, .resolution = {}};
  const auto report = RunBench(runner, plan, {});
  ASSERT_THAT(report, IsOk());
  EXPECT_THAT(runner.tried(), ElementsAre(10));
  EXPECT_FALSE(report->search->highest_met.has_value());
  EXPECT_FALSE(Succeeded(*report));
}

TEST(BenchTest, ALevelThatTheServerDoesNotKeepUpWithMissesItsTargets) {
  FormulaRunner runner(1e9);
  runner.BecomeOverloaded();
  BenchPlan plan = PlanOfRates();
  plan.slo = {*ParseSlo("errors=1%")};
  plan.search = SearchPlan{.lowest = 400.0, .highest = {}, .resolution = {}};
  const auto report = RunBench(runner, plan, {});
  ASSERT_THAT(report, IsOk());
  EXPECT_TRUE(report->levels[0].slo[0].is_met);
  EXPECT_EQ(report->search->lowest_missed, 400.0);
  EXPECT_FALSE(report->search->highest_met.has_value());
  EXPECT_FALSE(Succeeded(*report));
}

TEST(BenchTest, RequestsUnderWayAreWholeNumbers) {
  FormulaRunner runner(13.0);
  BenchPlan plan;
  plan.slo = {*ParseSlo("p99=50ms")};
  plan.search = SearchPlan{.lowest = 1.0, .highest = {}, .resolution = {}};
  const auto report = RunBench(runner, plan, {});
  ASSERT_THAT(report, IsOk());
  EXPECT_THAT(runner.tried(), ElementsAre(1, 2, 4, 8, 16, 12, 14, 13));
  EXPECT_EQ(report->search->highest_met, 13.0);
  EXPECT_EQ(report->search->lowest_missed, 14.0);
}

TEST(BenchTest, ARangeWithTargetsEndsWithTheFirstLevelThatMisses) {
  FormulaRunner runner(250.0);
  BenchPlan plan = PlanOfRates();
  plan.levels = {100, 200, 300, 400};
  const auto report = RunBench(runner, plan, {});
  ASSERT_THAT(report, IsOk());
  EXPECT_THAT(runner.tried(), ElementsAre(100, 200, 300));
  EXPECT_EQ(report->search->highest_met, 200.0);
  EXPECT_TRUE(Succeeded(*report));
}

TEST(BenchTest, ARangeWithoutTargetsIsMeasuredWhole) {
  FormulaRunner runner(250.0);
  BenchPlan plan = PlanOfRates();
  plan.slo.clear();
  plan.levels = {100, 300, 400};
  const auto report = RunBench(runner, plan, {});
  ASSERT_THAT(report, IsOk());
  EXPECT_THAT(runner.tried(), ElementsAre(100, 300, 400));
  EXPECT_FALSE(report->search.has_value());
}

TEST(BenchTest, WhoStopsItEndsItAndTheLevelThatWasCutShortDecidesNothing) {
  FormulaRunner runner(250.0);
  runner.StopAfter(3);
  BenchPlan plan = PlanOfRates();
  plan.search = SearchPlan{.lowest = 100.0, .highest = {}, .resolution = {}};
  std::vector<double> told;
  BenchWatch watch;
  watch.on_result = [&](const BenchLevel& level) { told.push_back(LevelValue(level.options)); };
  const auto report = RunBench(runner, plan, watch);
  ASSERT_THAT(report, IsOk());
  EXPECT_THAT(told, ElementsAre(100, 200, 400));
  EXPECT_EQ(report->search->highest_met, 200.0);
  EXPECT_FALSE(report->search->lowest_missed.has_value());
  EXPECT_FALSE(Succeeded(*report)) << "the search did not end";
}

TEST(BenchTest, OneLevelIsJudgedByItself) {
  FormulaRunner runner(5.0);
  const auto report = RunBench(runner, PlanOfRates(), {});
  ASSERT_THAT(report, IsOk());
  ASSERT_EQ(report->levels.size(), 1u);
  EXPECT_FALSE(report->levels[0].slo[0].is_met);
  EXPECT_FALSE(Succeeded(*report));
  EXPECT_EQ(report->subject.model, "formula");
  EXPECT_FALSE(report->machine["version"].get<std::string>().empty());
}

}  // namespace
}  // namespace attention
