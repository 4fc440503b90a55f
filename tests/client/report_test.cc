#include "client/load/report.h"

#include "gmock/gmock.h"

namespace attention {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// 1000 answers of 1 to 1000 ms in 10 s.
LoadReport Report() {
  LoadReport report;
  report.model = "demo";
  report.request = "hidden states [1, 128, 512] FP32";
  report.tokens_per_request = 128;
  report.request_bytes = 500'000;
  report.options.server = "127.0.0.1:8001";
  report.result.window = absl::Seconds(10);
  for (int64_t ms = 1; ms <= 1000; ++ms) {
    report.result.latency_ns.Record(ms * 1'000'000);
  }
  report.result.answered_bytes = 500'000'000;
  report.result.queue_ns = 2'000'000'000;
  report.result.compute_ns = 8'000'000'000;
  report.result.batch_requests = 1500;
  return report;
}

TEST(ReportTest, ComputesRatesOverTheWindow) {
  const nlohmann::json json = ToJson(Report());
  EXPECT_EQ(json["answers"], 1000);
  EXPECT_DOUBLE_EQ(json["requests_per_s"], 100.0);
  EXPECT_DOUBLE_EQ(json["tokens_per_s"], 12800.0);
  EXPECT_DOUBLE_EQ(json["gigabytes_per_s"], 0.1);
  EXPECT_DOUBLE_EQ(json["server_ms"]["queue"], 2.0);
  EXPECT_DOUBLE_EQ(json["server_ms"]["compute"], 8.0);
  EXPECT_DOUBLE_EQ(json["requests_per_batch"], 1.5);
  EXPECT_NEAR(json["latency_ms"]["p50"], 500.0, 500.0 / 128);
  EXPECT_NEAR(json["latency_ms"]["p99.9"], 999.0, 999.0 / 128);
  EXPECT_DOUBLE_EQ(json["latency_ms"]["max"], 1000.0);
  EXPECT_DOUBLE_EQ(json["latency_ms"]["mean"], 500.5);
  EXPECT_FALSE(json["machine"]["version"].get<std::string>().empty());
}

TEST(ReportTest, SucceedsWithAnswersAndWithoutErrors) {
  EXPECT_TRUE(Succeeded(Report()));
  LoadReport none = Report();
  none.result.latency_ns = Histogram();
  EXPECT_FALSE(Succeeded(none));
  EXPECT_DOUBLE_EQ(ToJson(none)["requests_per_s"], 0.0);
}

TEST(ReportTest, AnyErrorFailsIt) {
  LoadReport report = Report();
  report.result.errors["UNAVAILABLE"] = 3;
  report.result.error_texts["UNAVAILABLE"] = "draining";
  EXPECT_FALSE(Succeeded(report));
  EXPECT_THAT(ToText(report), HasSubstr("3 x UNAVAILABLE: draining"));
  EXPECT_EQ(ToJson(report)["errors"]["UNAVAILABLE"], 3);
}

TEST(ReportTest, ASampleThatDiffersFailsIt) {
  LoadReport report = Report();
  report.verification = LoadVerification{.reference = std::nullopt, .sampled = 4, .identical = 4};
  EXPECT_TRUE(Succeeded(report));
  report.verification->identical = 3;
  EXPECT_FALSE(Succeeded(report));
  EXPECT_THAT(ToText(report), HasSubstr("3 of 4 samples"));
}

TEST(ReportTest, DisagreementWithTheReferenceFailsIt) {
  LoadReport report = Report();
  report.verification.emplace();
  report.verification->reference = {
      .relative_l2 = 1e-3, .tolerance = 1e-6, .weights_relative_l2 = {}};
  EXPECT_FALSE(Succeeded(report));
  EXPECT_THAT(ToText(report), HasSubstr("DISAGREES"));
}

TEST(ReportTest, WarnsWhenTheClientWasBusy) {
  LoadReport report = Report();
  report.result.client_cpu_share = 0.5;
  EXPECT_THAT(ToText(report), Not(HasSubstr("limit")));
  report.result.client_cpu_share = 0.98;
  EXPECT_THAT(ToText(report), HasSubstr("98% of one core: the client itself may be the limit"));
}

}  // namespace
}  // namespace attention
