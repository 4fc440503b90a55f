#include "client/report/report_page.h"

#include <string>

#include "client/load/report.h"
#include "client/page/escape.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attention {
namespace {

using ::testing::AllOf;
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

std::string PageOf(const BenchReport& report) { return *ReportPage({{"run", ToJson(report)}}); }

TEST(ReportPageTest, SaysWhetherTargetsWereMet) {
  EXPECT_THAT(PageOf(WithTarget(Report({100}))),
              AllOf(HasSubstr("class=\"passed\">Passed"), HasSubstr("max=200ms met")));
  EXPECT_THAT(PageOf(WithTarget(Report({100, 200}))),
              AllOf(HasSubstr("class=\"failed\">Failed"), HasSubstr("target max=200ms MISSED"),
                    HasSubstr("\"limit\":200.0")));
}

TEST(ReportPageTest, HasTheTextAndTheJsonOfEachRun) {
  const BenchReport report = Report({100});
  const absl::StatusOr<std::string> made =
      ReportPage({{"one", ToJson(report)}, {"two", ToJson(report)}});
  ASSERT_TRUE(made.ok()) << made.status();
  const std::string& page = *made;
  EXPECT_THAT(page, AllOf(HasSubstr("2 runs compared"), HasSubstr("<bdi>two</bdi>: "),
                          HasSubstr(EscapeHtml(ToText(report))), HasSubstr("\"name\":\"two\"")));
}

TEST(ReportPageTest, SaysInWhatRunsDifferBesidesTheirNumbers) {
  BenchReport open = Report({100}), longer = open, closed = open;
  const auto page_of = [&](const BenchReport& other) {
    return *ReportPage({{"a", ToJson(open)}, {"b", ToJson(other)}});
  };
  EXPECT_THAT(page_of(Report({100, 200})), Not(HasSubstr("differ in more")));
  EXPECT_THAT(page_of(Report({200})),
              HasSubstr("<dt>rate_per_s</dt><dd><bdi>a</bdi>: <bdi>100.0</bdi><br><bdi>b</bdi>: "
                        "<bdi>200.0</bdi></dd>"));
  longer.subject.request = "hidden states <9>";
  EXPECT_THAT(page_of(longer),
              AllOf(HasSubstr("differ in more than their numbers"),
                    HasSubstr("<dt>request</dt><dd><bdi>a</bdi>: <bdi>hidden states</bdi><br>"
                              "<bdi>b</bdi>: <bdi>hidden states &lt;9&gt;</bdi></dd>"),
                    Not(HasSubstr("<dt>load</dt>"))));
  closed.levels[0].options.open_loop.reset();
  closed.levels[0].result.pace.reset();
  EXPECT_THAT(page_of(closed), HasSubstr("<dt>load</dt><dd><bdi>a</bdi>: <bdi>open loop,"));
}

TEST(ReportPageTest, ForeignTextIsText) {
  BenchReport report = Report({100});
  report.levels[0].result.failures["UNAVAILABLE"] = {
      .count = 3, .first_text = "<draining>", .latency_ns = {}};
  report.machine = {{"\u202e", "</script>"}};
  EXPECT_THAT(PageOf(report), AllOf(HasSubstr("3 x UNAVAILABLE: &lt;draining&gt;"),
                                    Not(HasSubstr("<draining>")), Not(HasSubstr("\u202e"))));
}

TEST(ReportPageTest, NamesAResultThatLacksSomething) {
  nlohmann::json result = ToJson(Report({100}));
  result.erase("machine");
  const absl::StatusOr<std::string> page = ReportPage({{"before", result}});
  EXPECT_EQ(page.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(page.status().message()),
              AllOf(HasSubstr("before: not a result of attend bench"), HasSubstr("machine")));
}

}  // namespace
}  // namespace attention
