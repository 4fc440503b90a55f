#include "client/report/report_page.h"

#include <string>

#include "client/load/report.h"
#include "client/report/curves.h"
#include "client/report/load_charts.h"
#include "client/report/percentile_points.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// 2 s at `rate`: latencies of 1 ms, 2 ms, ..., one for each request.
BenchLevel Level(double rate) {
  BenchLevel level;
  level.options.open_loop = OpenLoopOptions{.arrivals = {.rate_per_s = rate}};
  LoadResult& result = level.result;
  result.window = absl::Seconds(2);
  result.pace.emplace();
  result.series = TimeSeries(absl::Seconds(1));
  for (int i = 0; i < 2 * static_cast<int>(rate); ++i) {
    const int64_t latency_ns = (i + 1) * 1'000'000;
    TimeSlice& slice = result.series.At(absl::Seconds(i < rate ? 0.5 : 1.5));
    ++slice.due;
    ++slice.sent;
    ++slice.answers;
    slice.latency_ns.Record(latency_ns);
    result.latency_ns.Record(latency_ns);
    result.service_ns.Record(latency_ns);
    ++result.answers;
    ++result.pace->due;
  }
  return level;
}

BenchReport Report(const std::vector<double>& rates) {
  BenchReport report;
  report.subject = {.model = "demo", .request = "hidden states"};
  report.machine = {{"cpu", "one"}};
  for (const double rate : rates) {
    report.levels.push_back(Level(rate));
  }
  return report;
}

/// With a target that every level above 100/s misses.
BenchReport WithTarget(BenchReport report) {
  report.slo = {{.text = "max=200ms", .of = SloTarget::Of::kMax, .limit = 200.0}};
  for (BenchLevel& level : report.levels) {
    level.slo = {CheckSlo(report.slo.front(), level.result)};
  }
  return report;
}

TEST(PercentilePointsTest, RiseToTheHighestValueAtItsOwnShare) {
  Histogram histogram;
  for (int i = 1; i <= 1000; ++i) {
    histogram.Record(i * 1'000'000);
  }
  const std::vector<Point> points = PercentilePoints(histogram);
  EXPECT_DOUBLE_EQ(points.front().x, 1.0);
  EXPECT_DOUBLE_EQ(points.back().x, 1000.0);
  EXPECT_DOUBLE_EQ(points.back().y, 1.0);
  for (size_t i = 1; i < points.size(); ++i) {
    EXPECT_LT(points[i - 1].x, points[i].x);
    EXPECT_LE(points[i - 1].y, points[i].y);
    if (points[i].x == 2.0) {
      EXPECT_NEAR(points[i].y, 0.5, 0.5 / 128);
    }
  }
}

TEST(PercentilePointsTest, OneValueIsOnePoint) {
  Histogram histogram;
  histogram.Record(5);
  EXPECT_EQ(PercentilePoints(histogram).size(), 1U);
  Chart chart;
  AddPercentiles("empty", Histogram(), chart);
  EXPECT_TRUE(chart.series.empty());
}

TEST(CurvesTest, OfOneReportAreItsLevelsLowestFirst) {
  std::vector<std::string> names;
  for (const Curve& curve : CurvesOf({{"run", Report({200, 50, 100})}})) {
    names.push_back(curve.name);
  }
  EXPECT_THAT(names, ElementsAre("50/s", "100/s", "200/s"));
}

TEST(CurvesTest, OfManyLevelsSomeAreChosenEvenly) {
  std::vector<double> rates;
  for (int i = 1; i <= 31; ++i) {
    rates.push_back(i);
  }
  const std::vector<NamedReport> reports = {{"run", Report(rates)}};
  const std::vector<Curve> curves = CurvesOf(reports);
  ASSERT_EQ(curves.size(), 16U);
  EXPECT_EQ(curves.front().name, "1/s");
  EXPECT_EQ(curves[1].name, "3/s");
  EXPECT_EQ(curves.back().name, "31/s");
}

TEST(CurvesTest, OfSeveralReportsTheHighestLevelThatMetItsTargets) {
  const BenchReport report = WithTarget(Report({200, 50, 100}));
  EXPECT_EQ(LevelName(MainLevel(report)), "100/s");
  EXPECT_EQ(LevelName(MainLevel(WithTarget(Report({300, 200})))), "200/s");
  const std::vector<NamedReport> reports = {{"a", report}, {"b", Report({10})}};
  const std::vector<Curve> curves = CurvesOf(reports);
  EXPECT_EQ(curves[0].name, "a, 100/s");
  EXPECT_EQ(curves[1].name, "b");
}

TEST(LoadChartsTest, ThroughputIsPerSecondOfEachSlice) {
  const std::vector<NamedReport> reports = {{"run", Report({100})}};
  const Chart chart = ThroughputChart(CurvesOf(reports));
  ASSERT_EQ(chart.series.size(), 4U);
  EXPECT_EQ(chart.series[0].name, "offered");
  EXPECT_EQ(chart.series[2].name, "answered");
  ASSERT_EQ(chart.series[2].points.size(), 2U);
  EXPECT_DOUBLE_EQ(chart.series[2].points[1].x, 2.0);
  EXPECT_DOUBLE_EQ(chart.series[2].points[1].y, 100.0);
  EXPECT_DOUBLE_EQ(chart.series[3].points[1].y, 0.0);
}

TEST(LoadChartsTest, AWindowThatEndsWithinASliceMakesNoFalseDrop) {
  BenchReport report = Report({100});
  report.levels[0].result.window = absl::Milliseconds(1100);
  const std::vector<NamedReport> reports = {{"run", report}};
  EXPECT_EQ(ThroughputChart(CurvesOf(reports)).series[2].points.size(), 1U);
}

TEST(LoadChartsTest, SlicesOfFewAnswersAreJoined) {
  BenchReport report = Report({100});
  LoadResult& result = report.levels[0].result;
  result.series = TimeSeries(absl::Milliseconds(10));
  for (int i = 0; i < 200; ++i) {
    ++result.series.At(absl::Milliseconds(10) * (i + 0.5)).answers;
  }
  const std::vector<NamedReport> reports = {{"run", report}};
  const Series answered = ThroughputChart(CurvesOf(reports)).series[2];
  ASSERT_EQ(answered.points.size(), 20U);
  EXPECT_DOUBLE_EQ(answered.points[0].x, 0.1);
  EXPECT_DOUBLE_EQ(answered.points[0].y, 100.0);
}

TEST(LoadChartsTest, SessionsAnswerSteps) {
  BenchReport report = Report({100});
  report.subject.decode.emplace();
  report.levels[0].result.pace.reset();
  const std::vector<NamedReport> reports = {{"run", report}};
  const Chart chart = ThroughputChart(CurvesOf(reports));
  EXPECT_EQ(chart.y_axis.title, "steps/s");
  EXPECT_EQ(chart.series[0].name, "answered");
  EXPECT_EQ(LatencyChart(CurvesOf(reports)).series[0].name, "step");
}

TEST(LoadChartsTest, ClosedLoopsOfferNothing) {
  BenchReport report = Report({100});
  report.levels[0].options.open_loop.reset();
  report.levels[0].result.pace.reset();
  const std::vector<NamedReport> reports = {{"run", report}};
  EXPECT_EQ(ThroughputChart(CurvesOf(reports)).series[0].name, "sent");
}

TEST(LoadChartsTest, LevelsAreInOrderAndTargetsAreLimits) {
  const Chart chart = LatencyByLevelChart({{"run", WithTarget(Report({200, 100}))}});
  EXPECT_THAT(PlacesOfX(chart), ElementsAre(100, 200));
  ASSERT_EQ(chart.limits.size(), 1U);
  EXPECT_EQ(chart.limits[0].name, "max=200ms");
  EXPECT_DOUBLE_EQ(chart.limits[0].y, 0.2);
}

TEST(ReportPageTest, SaysWhetherTargetsWereMet) {
  EXPECT_THAT(ReportPage({{"run", WithTarget(Report({100}))}}),
              AllOf(HasSubstr("Passed"), HasSubstr("<li class=\"good\"><bdi>target max=200ms met"),
                    Not(HasSubstr("id=\"latency-by-load\""))));
  EXPECT_THAT(ReportPage({{"run", WithTarget(Report({100, 200}))}}),
              AllOf(HasSubstr("Failed"),
                    HasSubstr("<li class=\"bad\"><bdi>200/s: target max=200ms MISSED</bdi>"),
                    HasSubstr("id=\"latency-by-load\"")));
}

TEST(ReportPageTest, RatesAndRequestsUnderWayShareNoAxis) {
  BenchReport closed = Report({1, 2});
  for (BenchLevel& level : closed.levels) {
    level.options.open_loop.reset();
  }
  EXPECT_THAT(ReportPage({{"a", closed}, {"b", closed}}), HasSubstr("id=\"latency-by-load\""));
  EXPECT_THAT(ReportPage({{"a", closed}, {"b", Report({1, 2})}}),
              AllOf(HasSubstr("id=\"latency\""), Not(HasSubstr("id=\"latency-by-load\""))));
}

TEST(ReportPageTest, SaysWhatFailed) {
  BenchReport report = Report({100});
  report.levels[0].result.failures["UNAVAILABLE"] = {
      .count = 3, .first_text = "<draining>", .latency_ns = {}};
  EXPECT_THAT(ReportPage({{"run", report}}),
              AllOf(HasSubstr("3 x UNAVAILABLE: &lt;draining&gt;"), Not(HasSubstr("<draining>"))));
}

TEST(ReportPageTest, JudgesStabilityOnlyWhenAsked) {
  BenchReport report = Report({100});
  report.levels[0].stability.is_stable = false;
  EXPECT_THAT(ReportPage({{"run", report}}), HasSubstr("<li class=\"unknown\"><bdi>whether it"));
  report.levels[0].options.stability = StabilityRule{};
  EXPECT_THAT(ReportPage({{"run", report}}), HasSubstr("<li class=\"warning\"><bdi>not stable<"));
  report.levels[0].options.stability->is_required = true;
  EXPECT_THAT(ReportPage({{"run", report}}), HasSubstr("<li class=\"bad\"><bdi>not stable<"));
  report.levels[0].stability.is_stable = true;
  EXPECT_THAT(ReportPage({{"run", report}}), HasSubstr("<li class=\"good\"><bdi>stable<"));
}

TEST(ReportPageTest, SaysWhenTheClientWasTheLimit) {
  BenchReport report = Report({100});
  EXPECT_THAT(ReportPage({{"run", report}}),
              HasSubstr("<li class=\"good\"><bdi>the client was not the limit: 0% of one core"));
  report.levels[0].result.client_cpu_share = 0.99;
  EXPECT_THAT(ReportPage({{"run", report}}),
              HasSubstr("<li class=\"warning\"><bdi>the client itself may be the limit"));
}

TEST(ReportPageTest, ARunWithoutAnswersIsAReportToo) {
  BenchReport report = Report({100});
  report.levels[0].result = LoadResult();
  report.levels[0].result.window = absl::Seconds(1);
  EXPECT_THAT(ReportPage({{"run", report}}),
              AllOf(HasSubstr("no request was answered"), HasSubstr("no value was measured"),
                    Not(HasSubstr("nan"))));
}

TEST(ReportPageTest, ASavedResultMakesTheSamePage) {
  const BenchReport report = WithTarget(Report({100, 200}));
  const absl::StatusOr<BenchReport> read = ReadReport(ToJson(report));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(ReportPage({{"run", *read}}), ReportPage({{"run", report}}));
}

}  // namespace
}  // namespace attention
