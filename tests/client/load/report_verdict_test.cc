// Whether a result passes, and what its text remarks.
#include "client/load/report.h"
#include "gmock/gmock.h"
#include "tests/client/load/sample_reports.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(ReportVerdictTest, AMissedTargetIsToldFromAFailure) {
  BenchReport report = Report();
  EXPECT_EQ(VerdictOf(report), BenchVerdict::kPassed);
  LoadResult& result = report.levels[0].result;
  report.levels[0].slo = {CheckSlo(*ParseSlo("p50=100ms"), result)};
  EXPECT_EQ(VerdictOf(report), BenchVerdict::kMissed);
  result.failures["UNAVAILABLE"] = {
      .count = 30, .first_text = "draining", .in_window = 30, .latency_ns = {}};
  EXPECT_EQ(VerdictOf(report), BenchVerdict::kFailed) << "no target judges the failures";
  report.levels[0].slo = {CheckSlo(*ParseSlo("errors=1%"), result)};
  EXPECT_EQ(VerdictOf(report), BenchVerdict::kMissed);
  report.levels[0].slo = {CheckSlo(*ParseSlo("errors=5%"), result)};
  EXPECT_EQ(VerdictOf(report), BenchVerdict::kPassed);
  result.was_stopped = true;
  EXPECT_EQ(VerdictOf(report), BenchVerdict::kFailed);
}

TEST(ReportVerdictTest, ASearchThatFindsNoLevelHasMissedUnlessTheLoadFailed) {
  BenchReport report = RangeReport();
  report.levels.erase(report.levels.begin());
  report.search->highest_met.reset();
  EXPECT_EQ(VerdictOf(report), BenchVerdict::kMissed);
  report.levels[0].result.failures["UNAVAILABLE"].count = 1;
  EXPECT_EQ(VerdictOf(report), BenchVerdict::kFailed);
}

TEST(ReportVerdictTest, ErrorsFailUnlessATargetAllowsThem) {
  BenchReport report = Report();
  LoadResult& result = report.levels[0].result;
  result.failures["UNAVAILABLE"] = {
      .count = 3, .first_text = "draining", .in_window = 0, .latency_ns = {}};
  EXPECT_FALSE(Succeeded(report));
  for (int i = 0; i < 3; ++i) {
    ++result.failures["UNAVAILABLE"].in_window;
  }
  report.levels[0].slo = {CheckSlo(*ParseSlo("errors=1%"), result)};
  EXPECT_TRUE(Succeeded(report));
  report.levels[0].slo = {CheckSlo(*ParseSlo("errors=0.1%"), result)};
  EXPECT_FALSE(Succeeded(report));
}

TEST(ReportVerdictTest, ALoadThatDidNotSettleFailsOnlyWhenItHasTo) {
  BenchReport report = Report();
  BenchLevel& level = report.levels[0];
  level.options.stability = StabilityRule{};
  level.stability.is_stable = false;
  level.stability.windows.resize(3);
  EXPECT_TRUE(Succeeded(report));
  EXPECT_THAT(ToText(report), HasSubstr("NOT STABLE"));
  level.options.stability->is_required = true;
  EXPECT_FALSE(Succeeded(report));
}

TEST(ReportVerdictTest, TellsOfRetries) {
  BenchReport report = Report();
  EXPECT_THAT(ToText(report), HasSubstr(" to 127.0.0.1:8001\n"));
  report.levels[0].options.connection.retries = true;
  EXPECT_THAT(ToText(report), HasSubstr(" to 127.0.0.1:8001, with retries\n"));
}

TEST(ReportVerdictTest, SaysThatFewerRequestsThanLanesCannotFillThem) {
  const char* const remark = "requests    only 3 of 8 were ever in flight: there were no more\n";
  BenchReport report = Report();
  LoadOptions& options = report.levels[0].options;
  options.concurrency = 8;
  options.requests = 3;
  EXPECT_THAT(ToText(report), HasSubstr(remark));
  options.requests = 8;
  EXPECT_THAT(ToText(report), Not(HasSubstr("ever in flight")));
  options.requests = 3;
  options.warmup = absl::Seconds(1);
  EXPECT_THAT(ToText(report), Not(HasSubstr("ever in flight"))) << "8 in the warm-up";
  options.warmup = absl::ZeroDuration();
  report.subject.decode.emplace();
  EXPECT_THAT(ToText(report), Not(HasSubstr("ever in flight"))) << "8 sessions are opened";
}

TEST(ReportVerdictTest, AStepHasNoTimeOfReceiving) {
  BenchReport report = Report();
  report.levels[0].result.phases.receive_ns.Record(0);
  EXPECT_THAT(ToText(report), HasSubstr("\n  receive "));
  report.subject.decode.emplace();
  EXPECT_THAT(ToText(report), AllOf(Not(HasSubstr("\n  receive ")), HasSubstr("\n  queue ")));
}

}  // namespace
}  // namespace attention
