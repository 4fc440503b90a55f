// Results as JSON: written, read, and added up.
#include "client/load/report.h"
#include "gmock/gmock.h"
#include "tests/client/sample_reports.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ReportReadTest, WhatIsWrittenIsRead) {
  BenchReport decode = Report();
  decode.subject.decode = DecodeOptions{.prefill = 7, .cache_dtype = v1::INT8};
  decode.subject.causal = true;
  decode.levels[0].verification = LoadVerification{.reference = {}, .sampled = 3, .identical = 2};
  decode.levels[0].options.stability = StabilityRule{.percentile = 95.0};
  decode.levels[0].stability = JudgeStability(decode.levels[0].result.series, absl::Seconds(2), {});
  for (const BenchReport& report : {Report(), OpenReport(), RangeReport(), decode}) {
    const nlohmann::json json = ToJson(report);
    const auto read = ReadReport(nlohmann::json::parse(json.dump()));
    ASSERT_THAT(read, IsOk());
    EXPECT_EQ(ToJson(*read), json);
    EXPECT_EQ(ToText(*read), ToText(report));
    EXPECT_EQ(ToCsv(*read), ToCsv(report));
  }
}

TEST(ReportReadTest, RefusesWhatIsNone) {
  const auto refuses = [](const nlohmann::json& json, const char* words) {
    EXPECT_THAT(ReadReport(json),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("not a result of attend bench"), HasSubstr(words))));
  };
  refuses({{"rows", 3}}, "expected the format \"attend-bench-1\", found \"\"");
  refuses(nlohmann::json(5), "");
  nlohmann::json json = ToJson(Report());
  json["latency_ms"]["histogram"] = "12:x";
  refuses(json, "expected UPPER_END:COUNT, found \"12:x\"");
  json = ToJson(Report());
  json.erase("answers");
  refuses(json, "answers");
  json = ToJson(Report());
  json["series"]["slice_s"] = 0.0;
  refuses(json, "series: expected");
}

/// Every other answer of Report(), as one of two clients would have it.
BenchReport HalfOfReport(int64_t remainder) {
  BenchReport report = Report();
  LoadResult& result = report.levels[0].result;
  const LoadResult whole = result;
  result.latency_ns = Histogram();
  result.series = TimeSeries();
  for (int64_t ms = 1; ms <= 1000; ++ms) {
    if (ms % 2 == remainder) {
      result.latency_ns.Record(ms * 1'000'000);
      TimeSlice& slice = result.series.At(absl::Milliseconds(9 * ms));
      ++slice.answers;
      slice.latency_ns.Record(ms * 1'000'000);
    }
  }
  result.answers = result.accounts = 500;
  result.tokens /= 2;
  result.request_bytes /= 2;
  result.answered_bytes /= 2;
  result.batch_requests /= 2;
  result.phases = {};
  (remainder == 0 ? result.phases.queue_ns : result.phases.compute_ns)
      .Merge(remainder == 0 ? whole.phases.queue_ns : whole.phases.compute_ns);
  return report;
}

TEST(ReportMergeTest, TwoClientsAtOneTimeAreAsOneRun) {
  const auto merged = MergeReports({HalfOfReport(0), HalfOfReport(1)});
  ASSERT_THAT(merged, IsOk());
  nlohmann::json one = ToJson(Report()), sum = ToJson(*merged);
  // Of two clients twice as many are under way.
  EXPECT_EQ(sum["options"]["concurrency"], 2);
  one.erase("options");
  sum.erase("options");
  EXPECT_EQ(sum, one);
}

TEST(ReportMergeTest, RunsOneAfterTheOtherAreALongerOne) {
  BenchReport later = Report();
  later.levels[0].result.started += absl::Hours(1);
  const auto merged = MergeReports({later, Report()});
  ASSERT_THAT(merged, IsOk());
  const LoadResult& result = merged->levels[0].result;
  EXPECT_EQ(result.window, absl::Seconds(20));
  EXPECT_EQ(result.answers, 2000);
  EXPECT_EQ(result.series.slices().size(), 20u);
  EXPECT_DOUBLE_EQ(ToJson(*merged)["requests_per_s"], 100.0);
}

TEST(ReportMergeTest, RatesAddUp) {
  const auto merged = MergeReports({OpenReport(), OpenReport(), OpenReport()});
  ASSERT_THAT(merged, IsOk());
  const nlohmann::json json = ToJson(*merged);
  EXPECT_DOUBLE_EQ(json["offered_per_s"], 360.0);
  EXPECT_DOUBLE_EQ(json["options"]["rate_per_s"], 360.0);
  EXPECT_EQ(json["lag_ms"]["count"], 3300);
  EXPECT_EQ(json["errors"]["RESOURCE_EXHAUSTED"], 300);
}

TEST(ReportMergeTest, RefusesWhatIsNotAlike) {
  BenchReport other = Report();
  other.subject.request = "hidden states [1, 2, 512] FP32";
  EXPECT_THAT(MergeReports({Report(), other}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("of one request")));
  EXPECT_THAT(MergeReports({Report(), RangeReport()}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("found 1 and 2")));
  EXPECT_THAT(MergeReports({Report(), OpenReport()}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("found both")));
}

}  // namespace
}  // namespace attention
