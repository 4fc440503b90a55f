#include "client/load/report.h"

#include "gmock/gmock.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// 1000 answers of 1 to 1000 ms in 10 s.
LoadReport Report() {
  LoadReport report;
  report.model = "demo";
  report.request = "hidden states [1, 128, 512] FP32";
  report.options.connection.server = "127.0.0.1:8001";
  LoadResult& result = report.result;
  result.window = absl::Seconds(10);
  for (int64_t ms = 1; ms <= 1000; ++ms) {
    result.latency_ns.Record(ms * 1'000'000);
  }
  result.answers = result.accounts = 1000;
  result.tokens = 128'000;
  result.request_bytes = result.answered_bytes = 500'000'000;
  result.account = {.queue_ns = 2'000'000'000, .compute_ns = 8'000'000'000, .batch_requests = 1500};
  return report;
}

/// 100 requests a second are due, of which 10 are not sent; sent 0.1 ms late, refused after 2 ms.
LoadReport OpenReport() {
  LoadReport report = Report();
  report.options.open_loop = OpenLoopOptions{
      .arrivals = {.rate_per_s = 120.0, .arrivals = Arrivals::kPoisson}, .max_in_flight = 50};
  LoadResult& result = report.result;
  result.service_ns.Record(1'000'000);
  result.pace = PaceTally{.due = 1200, .not_sent = 100, .lag_ns = {}};
  for (int i = 0; i < 1100; ++i) {
    result.pace->lag_ns.Record(100'000);
  }
  FailureTally& refused = result.failures["RESOURCE_EXHAUSTED"];
  refused = {.count = 100, .first_text = "queue full", .latency_ns = {}};
  refused.latency_ns.Record(2'000'000);
  result.failures[kNotSent] = {.count = 100, .first_text = "50 under way", .latency_ns = {}};
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
  none.result.answers = none.result.accounts = 0;
  EXPECT_FALSE(Succeeded(none));
  EXPECT_DOUBLE_EQ(ToJson(none)["requests_per_s"], 0.0);
}

TEST(ReportTest, AnyErrorFailsIt) {
  LoadReport report = Report();
  report.result.failures["UNAVAILABLE"] = {.count = 3, .first_text = "draining", .latency_ns = {}};
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

TEST(ReportTest, OfAnOpenLoopTellsWhatWasOfferedSentAndAnswered) {
  const nlohmann::json json = ToJson(OpenReport());
  EXPECT_DOUBLE_EQ(json["offered_per_s"], 120.0);
  EXPECT_DOUBLE_EQ(json["sent_per_s"], 110.0);
  EXPECT_DOUBLE_EQ(json["goodput_per_s"], 100.0);
  EXPECT_DOUBLE_EQ(json["service_ms"]["max"], 1.0);
  EXPECT_DOUBLE_EQ(json["lag_ms"]["max"], 0.1);
  EXPECT_EQ(json["errors"]["NOT_SENT"], 100);
  EXPECT_EQ(json["error_texts"]["RESOURCE_EXHAUSTED"], "queue full");
  EXPECT_DOUBLE_EQ(json["error_latency_ms"]["RESOURCE_EXHAUSTED"]["p50"], 2.0);
  EXPECT_FALSE(json["error_latency_ms"].contains("NOT_SENT"));
  EXPECT_EQ(json["options"]["arrivals"], "poisson");
  EXPECT_EQ(json["options"]["max_in_flight"], 50);
  EXPECT_FALSE(json["options"].contains("concurrency"));
  EXPECT_THAT(ToText(OpenReport()),
              AllOf(HasSubstr("open loop of 120 requests/s, poisson arrivals, on 1 connection"),
                    HasSubstr("offered 120.0/s   sent 110.0/s   goodput 100.0/s"),
                    HasSubstr("100 x RESOURCE_EXHAUSTED: queue full\n            after mean 2.000"),
                    HasSubstr("100 x NOT_SENT: 50 under way\n")));
}

TEST(ReportTest, OfAClosedLoopHasNothingOfAnOpenOne) {
  const nlohmann::json json = ToJson(Report());
  for (const char* key : {"offered_per_s", "goodput_per_s", "service_ms", "lag_ms"}) {
    EXPECT_FALSE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["options"]["concurrency"], 1);
  EXPECT_THAT(ToText(Report()), AllOf(HasSubstr("closed loop of 1 on 1 connection"),
                                      Not(HasSubstr("goodput")), Not(HasSubstr("sent late"))));
}

TEST(ReportTest, LeavesOutTheServersAccountWhereThereIsNone) {
  LoadReport report = Report();
  EXPECT_THAT(ToText(report), HasSubstr("\nserver "));
  report.result.accounts = 0;
  EXPECT_THAT(ToText(report), Not(HasSubstr("\nserver ")));
  EXPECT_FALSE(ToJson(report).contains("server_ms"));
}

TEST(ReportTest, WarnsWhenTheClientSentLate) {
  LoadReport report = OpenReport();
  EXPECT_EQ(ClientWarning(report), "");
  for (int i = 0; i < 20; ++i) {
    report.result.pace->lag_ns.Record(5'000'000);
  }
  EXPECT_EQ(ClientWarning(report),
            "the client itself may be the limit: one request of a hundred was sent more than 5.0 "
            "ms late");
}

TEST(ReportTest, WarnsWhenTheClientWasBusy) {
  LoadReport report = Report();
  report.result.client_cpu_share = 0.5;
  EXPECT_THAT(ToText(report), Not(HasSubstr("limit")));
  report.result.client_cpu_share = 0.98;
  EXPECT_THAT(ToText(report),
              HasSubstr("98% of one core: the client itself may be the limit: it was busy"));
}

}  // namespace
}  // namespace attention
