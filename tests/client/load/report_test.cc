#include "client/load/report.h"

#include <vector>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "tests/client/load/sample_reports.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(ReportTest, ComputesRatesOverTheWindow) {
  const nlohmann::json json = ToJson(Report());
  EXPECT_EQ(json["answers"], 1000);
  EXPECT_DOUBLE_EQ(json["requests_per_s"], 100.0);
  EXPECT_DOUBLE_EQ(json["tokens_per_s"], 12800.0);
  EXPECT_DOUBLE_EQ(json["gigabytes_per_s"], 0.1);
  EXPECT_DOUBLE_EQ(json["phases_ms"]["queue"]["mean"], 2.0);
  EXPECT_DOUBLE_EQ(json["phases_ms"]["compute"]["mean"], 8.0);
  EXPECT_DOUBLE_EQ(json["requests_per_batch"], 1.5);
  EXPECT_NEAR(json["latency_ms"]["p50"], 500.0, 500.0 / 128);
  EXPECT_NEAR(json["latency_ms"]["p99.9"], 999.0, 999.0 / 128);
  EXPECT_TRUE(json["latency_ms"]["p99.99"].is_null()) << "as in the text";
  EXPECT_DOUBLE_EQ(json["latency_ms"]["max"], 1000.0);
  EXPECT_DOUBLE_EQ(json["latency_ms"]["mean"], 500.5);
  EXPECT_EQ(json["machine"]["cpu"], "a cpu");
}

TEST(ReportTest, SucceedsWithAnswersAndWithoutErrors) {
  EXPECT_TRUE(Succeeded(Report()));
  BenchReport none = Report();
  none.levels[0].result.answers = none.levels[0].result.accounts = 0;
  EXPECT_FALSE(Succeeded(none));
  EXPECT_DOUBLE_EQ(ToJson(none)["requests_per_s"], 0.0);
}

TEST(ReportTest, WhatWasCutShortHasFailed) {
  BenchReport report = Report();
  report.levels[0].result.was_stopped = true;
  EXPECT_FALSE(Succeeded(report));
  EXPECT_EQ(ToJson(report)["succeeded"], false);
  EXPECT_EQ(ToJson(report)["met"], false);
}

TEST(ReportTest, ASearchThatWasStoppedHasFailedAndSaysSo) {
  BenchReport report = RangeReport();
  report.levels[1].result.was_stopped = true;
  EXPECT_FALSE(Succeeded(report));
  EXPECT_THAT(ToText(report), HasSubstr("(8 missed; STOPPED before the search ended)"));
}

TEST(ReportTest, AnyErrorFailsIt) {
  BenchReport report = Report();
  report.levels[0].result.failures["UNAVAILABLE"] = {
      .count = 3, .first_text = "draining", .latency_ns = {}};
  EXPECT_FALSE(Succeeded(report));
  EXPECT_THAT(ToText(report), HasSubstr("3 x UNAVAILABLE: draining"));
  EXPECT_EQ(ToJson(report)["errors"]["UNAVAILABLE"], 3);
}

TEST(ReportTest, ASampleThatDiffersFailsIt) {
  BenchReport report = Report();
  report.levels[0].verification =
      LoadVerification{.reference = std::nullopt, .sampled = 4, .identical = 4};
  EXPECT_TRUE(Succeeded(report));
  report.levels[0].verification->identical = 3;
  EXPECT_FALSE(Succeeded(report));
  EXPECT_THAT(ToText(report), HasSubstr("3 of 4 samples"));
}

TEST(ReportTest, FewerSamplesThanWantedAreSaid) {
  BenchReport report = Report();
  LoadVerification& verification = report.levels[0].verification.emplace();
  verification.wanted = 20;
  EXPECT_THAT(ToText(report), HasSubstr("NO answer was compared, 20 wanted\n"));
  verification.sampled = verification.identical = 1;
  EXPECT_THAT(ToText(report), HasSubstr("1 of 1 samples bit-identical, of the 20 wanted\n"));
  EXPECT_EQ(ToJson(report)["verification"]["wanted"], 20);
  verification.sampled = verification.identical = 20;
  EXPECT_THAT(ToText(report), HasSubstr("20 of 20 samples bit-identical\n"));
}

TEST(ReportTest, ASampleThatCouldNotBeCheckedFailsIt) {
  BenchReport report = Report();
  report.levels[0].verification = LoadVerification{.reference = std::nullopt,
                                                   .sampled = 2,
                                                   .identical = 2,
                                                   .unchecked = 1,
                                                   .unchecked_text = "UNAVAILABLE: gone"};
  EXPECT_FALSE(Succeeded(report));
  EXPECT_THAT(
      ToText(report),
      HasSubstr("2 of 2 samples bit-identical; 1 more could NOT BE CHECKED: UNAVAILABLE: gone"));
  EXPECT_EQ(ToJson(report)["verification"]["unchecked"], 1);
}

TEST(ReportTest, ALevelWithoutAnswersHasNoLatencies) {
  BenchReport report = Report();
  const LoadOptions options = report.levels[0].options;
  report.levels.emplace_back().options = options;
  EXPECT_THAT(ToText(report),
              HasSubstr("        -         -         -         -         -       0\n"));
}

TEST(ReportTest, DisagreementWithTheReferenceFailsIt) {
  BenchReport report = Report();
  report.levels[0].verification.emplace();
  report.levels[0].verification->reference = {.relative_l2 = 1e-3, .tolerance = 1e-6};
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
              AllOf(HasSubstr("open loop of 120 requests/s, poisson arrivals, on 1 connection to"),
                    HasSubstr("offered 120.0/s   sent 110.0/s   goodput 100.0/s"),
                    HasSubstr("100 x RESOURCE_EXHAUSTED: queue full\n            after mean 2.000"),
                    HasSubstr("100 x NOT_SENT: 50 in flight\n")));
}

/// A window of 10 s in which 800 requests/s are due, and 100 more wait after each second of the
/// first `growing_s`.
BenchReport QueueReport(int growing_s) {
  BenchReport report = OpenReport();
  LoadResult& result = report.levels[0].result;
  result.failures.clear();
  result.series = TimeSeries();
  result.pace->span = absl::Seconds(10);
  for (int i = 0; i < 10; ++i) {
    TimeSlice& slice = result.series.At(absl::Seconds(i));
    slice.due = 800;
    slice.answers = i < growing_s ? 700 : 800;
    slice.errors = 0;
  }
  for (int i = 0; i < 100 * growing_s; ++i) {
    result.unfinished_ns.Record(1'000'000'000);
  }
  return report;
}

TEST(ReportTest, SaysThatAServerDidNotKeepUp) {
  const BenchReport report = QueueReport(10);
  EXPECT_THAT(ToText(report),
              HasSubstr("did NOT keep up: of 800.0 requests/s 700.0 were answered in the second "
                        "half, 1000 waited at the end"));
  EXPECT_EQ(ToJson(report)["kept_up"], false);
  EXPECT_TRUE(Succeeded(report)) << "no target was set";
}

TEST(ReportTest, AQueueThatDoesNotGrowIsKeepingUp) {
  const BenchReport report = QueueReport(2);
  EXPECT_THAT(ToText(report), Not(HasSubstr("keep up")));
  EXPECT_EQ(ToJson(report)["kept_up"], true);
  EXPECT_FALSE(ToJson(Report()).contains("kept_up")) << "a closed loop";
}

TEST(ReportTest, FailuresAreNoRequestsThatWait) {
  BenchReport report = QueueReport(10);
  for (int i = 0; i < 10; ++i) {
    report.levels[0].result.series.At(absl::Seconds(i)).errors = 100;
  }
  EXPECT_EQ(ToJson(report)["kept_up"], true);
}

TEST(ReportTest, TellsTheFailuresOfTheWindowFromThoseOfTheWarmUp) {
  EXPECT_THAT(ToText(OpenReport()),
              HasSubstr("1000 in 10.0 s, 190 failed, 10 more in the warm-up\n"));
  EXPECT_EQ(ToJson(OpenReport())["errors_in_window"]["NOT_SENT"], 90);
  EXPECT_THAT(ToText(Report()), HasSubstr("1000 in 10.0 s, 0 failed\n"));
}

TEST(ReportTest, CountsTheStepsAndPromptsOfSessions) {
  BenchReport report = Report();
  report.subject.decode.emplace();
  report.levels[0].result.prefills = 1;
  EXPECT_THAT(ToText(report), HasSubstr("answers     1000 steps and 1 prompt in 10.0 s"));
}

TEST(ReportTest, SaysThatNoRequestWasDue) {
  const std::string reason = "requests    NONE was due within the window: nothing was measured\n";
  BenchReport report = OpenReport();
  EXPECT_THAT(ToText(report), Not(HasSubstr(reason)));
  report.levels[0].result.pace->due = 0;
  report.levels[0].result.answers = 0;
  EXPECT_FALSE(Succeeded(report));
  EXPECT_THAT(ToText(report), HasSubstr(reason));
}

TEST(ReportTest, OfAClosedLoopHasNothingOfAnOpenOne) {
  const nlohmann::json json = ToJson(Report());
  for (const char* key : {"offered_per_s", "goodput_per_s", "service_ms", "lag_ms"}) {
    EXPECT_FALSE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["options"]["concurrency"], 1);
  EXPECT_THAT(ToText(Report()), AllOf(HasSubstr("closed loop of 1, on 1 connection"),
                                      Not(HasSubstr("goodput")), Not(HasSubstr("sent late"))));
}

TEST(ReportTest, LeavesOutTheServersAccountWhereThereIsNone) {
  BenchReport report = Report();
  EXPECT_THAT(ToText(report), HasSubstr("\nserver "));
  report.levels[0].result.accounts = 0;
  EXPECT_THAT(ToText(report), Not(HasSubstr("\nserver ")));
  EXPECT_FALSE(ToJson(report).contains("phases_ms"));
}

TEST(ReportTest, SaysHowManyTokensThePrefixCacheHad) {
  BenchReport report = Report();
  EXPECT_THAT(ToText(report), HasSubstr("\nserver      1.5 requests per batch\n"));
  LoadResult& result = report.levels[0].result;
  result.prefill_tokens = 128'000;
  result.cached_tokens = 192'000;
  EXPECT_THAT(ToText(report),
              HasSubstr("1.5 requests per batch, 75% of tokens from the prefix cache\n"));
  EXPECT_EQ(ToJson(report)["cached_tokens"], 192'000);
}

TEST(ReportTest, ANamedServerWithoutAnswersFailsIt) {
  BenchReport report = Report();
  BenchLevel& level = report.levels[0];
  level.options.connection.server = "a:1,b:1";
  level.result.servers = {{"ipv4:10.0.0.1:1", 600}, {"ipv4:10.0.0.2:1", 400}};
  EXPECT_TRUE(Succeeded(report));
  level.result.servers.erase("ipv4:10.0.0.2:1");
  EXPECT_FALSE(Succeeded(report));
  EXPECT_THAT(ToText(report),
              HasSubstr("only 1 of 2 answered within the window: ipv4:10.0.0.1:1 600\n"));
  level.result.answers = 1;
  EXPECT_TRUE(Succeeded(report)) << "one answer cannot come from both";
}

TEST(ReportTest, WarnsWhenTheClientSentLate) {
  BenchReport report = OpenReport();
  EXPECT_EQ(ClientWarning(report.levels[0]), "");
  for (int i = 0; i < 20; ++i) {
    report.levels[0].result.pace->lag_ns.Record(5'000'000);
  }
  EXPECT_EQ(ClientWarning(report.levels[0]),
            "the client itself may be the limit: one request of a hundred was sent more than 5.0 "
            "ms late");
}

TEST(ReportTest, WarnsWhenTheClientWasBusy) {
  BenchReport report = Report();
  report.levels[0].result.client_cpu_share = 0.5;
  EXPECT_THAT(ToText(report), Not(HasSubstr("limit")));
  report.levels[0].result.client_cpu_share = 0.98;
  EXPECT_THAT(ToText(report),
              HasSubstr("98% of one core: the client itself may be the limit: it was busy\n"));
  report.levels[0].result.client_wait_share = 0.3;
  EXPECT_THAT(ToText(report), HasSubstr("it was busy, and it waited 30% of the time for a core"));
}

TEST(ReportTest, APercentileOfTooFewAnswersIsLeftOut) {
  // 1000 answers back p99.9 with one, p99.99 with none.
  EXPECT_THAT(ToText(Report()), HasSubstr("   1000.000          -   1000.000\n"));
}

TEST(ReportTest, WhatThereAreTooFewAnswersForIsNullAndEmpty) {
  BenchReport report = Report();
  report.slo = {*ParseSlo("p99=50ms")};
  report.levels[0].result.latency_ns = Histogram();
  report.levels[0].slo = {CheckSlo(report.slo[0], report.levels[0].result)};
  const nlohmann::json json = ToJson(report);
  for (const char* const name : {"mean", "min", "max", "p50", "p99.99"}) {
    EXPECT_TRUE(json["latency_ms"][name].is_null()) << name;
  }
  EXPECT_TRUE(json["slo"][0]["measured"].is_null());
  EXPECT_THAT(ToText(report), HasSubstr("p99=50ms MISSED: no answers\n"));
  report.levels[0].result.latency_ns.Record(1'000'000);
  report.levels[0].slo = {CheckSlo(report.slo[0], report.levels[0].result)};
  EXPECT_DOUBLE_EQ(ToJson(report)["latency_ms"]["max"], 1.0);
  EXPECT_TRUE(ToJson(report)["latency_ms"]["p50"].is_null());
  EXPECT_THAT(ToText(report), HasSubstr("p99=50ms met: 1.000 ms, the largest of 1\n"));
  const std::vector<std::string> lines = absl::StrSplit(ToCsv(report), '\n');
  const std::vector<std::string> cells = absl::StrSplit(lines[1], ',');
  EXPECT_EQ(cells[7], "") << "p50";
  EXPECT_EQ(cells[11], "1000") << "mean";
}

TEST(ReportTest, RequestsThatWereAllDueAtOnceAreOfferedOverTheWindow) {
  BenchReport report = OpenReport();
  report.levels[0].result.pace->span = absl::Seconds(2);
  EXPECT_DOUBLE_EQ(ToJson(report)["offered_per_s"], 600.0);
  report.levels[0].result.pace->span = absl::Nanoseconds(1);
  EXPECT_DOUBLE_EQ(ToJson(report)["offered_per_s"], 120.0);
}

TEST(ReportTest, AMissedTargetFailsAndIsSaid) {
  BenchReport report = Report();
  report.slo = {*ParseSlo("p50=100ms")};
  report.levels[0].slo = {CheckSlo(report.slo[0], report.levels[0].result)};
  EXPECT_TRUE(Succeeded(report.levels[0]));
  EXPECT_FALSE(Succeeded(report));
  EXPECT_THAT(ToText(report), HasSubstr("p50=100ms MISSED: 50"));
  EXPECT_EQ(ToJson(report)["slo"][0]["met"], false);
}

TEST(ReportTest, ErrorsOfTheCsvAreThoseOfTheWindow) {
  const std::vector<std::string> lines = absl::StrSplit(ToCsv(OpenReport()), '\n');
  const std::vector<std::string> names = absl::StrSplit(lines[0], ',');
  const std::vector<std::string> cells = absl::StrSplit(lines[1], ',');
  ASSERT_EQ(names[19], "Errors");
  EXPECT_EQ(cells[19], "190") << "10 more in the warm-up";
}

TEST(ReportTest, TellsWhatWasInFlightAtTheEndAndWhenThatDecidedATarget) {
  BenchReport report = Report();
  EXPECT_THAT(ToText(report), Not(HasSubstr("at the end")));
  report.levels[0].result.unfinished_ns.Record(6'024'000'000);
  report.slo = {*ParseSlo("max=2s")};
  report.levels[0].slo = {CheckSlo(report.slo[0], report.levels[0].result)};
  EXPECT_FALSE(Succeeded(report));
  EXPECT_THAT(ToText(report),
              AllOf(HasSubstr("\nat the end  1 in flight, the slowest took 6024.000 ms\n"),
                    HasSubstr("max=2s MISSED: 6024.000 ms, with the calls in flight at the end")));
  EXPECT_EQ(ToJson(report)["unfinished_ms"]["max"], 6024.0);
  EXPECT_EQ(ToJson(report)["answers"], 1000);
}

TEST(ReportTest, ARangeIsATableAndSucceedsWhenOneLevelMetItsTargets) {
  BenchReport report = RangeReport();
  EXPECT_TRUE(Succeeded(report));
  EXPECT_THAT(ToText(report), AllOf(HasSubstr("at 8        target p99=995ms MISSED"),
                                    HasSubstr("1 in flight is the highest level found that meets "
                                              "p99=995ms (8 missed)")));
  const nlohmann::json json = ToJson(report);
  ASSERT_EQ(json["levels"].size(), 2u);
  EXPECT_EQ(json["levels"][1]["options"]["concurrency"], 8);
  EXPECT_EQ(json["levels"][1]["met"], false);
  EXPECT_EQ(json["search"]["highest_met"], 1.0);
  report.search->highest_met.reset();
  EXPECT_FALSE(Succeeded(report));
  EXPECT_THAT(ToText(report), HasSubstr("NO level meets p99=995ms"));
}

TEST(ReportTest, CsvHasALineForEachLevelInMicroseconds) {
  const std::vector<std::string> lines = absl::StrSplit(ToCsv(RangeReport()), '\n');
  ASSERT_EQ(lines.size(), 4u);  // the last is empty
  EXPECT_THAT(lines[0], StartsWith("Concurrency,Request Rate,Inferences/Second,Client Send,"));
  const std::vector<std::string> names = absl::StrSplit(lines[0], ',');
  const std::vector<std::string> cells = absl::StrSplit(lines[2], ',');
  ASSERT_EQ(cells.size(), names.size());
  EXPECT_EQ(cells[0], "8");
  EXPECT_EQ(cells[1], "");
  EXPECT_EQ(cells[2], "100.000");
  EXPECT_EQ(cells[5], "2000");      // queue
  EXPECT_EQ(cells[14], "2000000");  // max
  EXPECT_EQ(cells.back(), "0");
}

TEST(ReportTest, ARampIsNamedByBothItsRates) {
  BenchReport report = OpenReport();
  report.levels[0].options.open_loop->arrivals.ramp = Ramp{.to_rate_per_s = 200.0};
  report.levels[0].result.records.emplace_back();
  EXPECT_EQ(LevelText(report.levels[0].options), "120 to 200");
  EXPECT_THAT(ToCsv(report), HasSubstr("\n,120 to 200,"));
  EXPECT_THAT(RecordsCsv(report), HasSubstr("\n120 to 200,request,OK,"));
  EXPECT_EQ(LevelText(Report().levels[0].options), "1");
}

TEST(ReportTest, RecordsHaveALineForEachCall) {
  BenchReport report = RangeReport();
  EXPECT_EQ(RecordsCsv(report),
            "level,call,code,measured,due_ms,sent_late_ms,latency_ms,first_block_ms,tokens,"
            "request_bytes,answer_bytes,receive_ms,queue_ms,compute_ms,batch,batch_requests\n");
  report.levels[0].result.records = {{.code = absl::StatusCode::kUnavailable,
                                      .due_ns = -1'500'000,
                                      .lag_ns = 1000,
                                      .latency_ns = 2'000'000}};
  report.levels[1].result.records = {{.is_measured = true,
                                      .due_ns = 1,
                                      .latency_ns = 3'000'000,
                                      .tokens = 16,
                                      .request_bytes = 100,
                                      .answered_bytes = 200,
                                      .receive_ns = 10'000,
                                      .queue_ns = 20'000,
                                      .compute_ns = 30'000,
                                      .batch_id = 77,
                                      .batch_requests = 2}};
  const std::vector<std::string> lines = absl::StrSplit(RecordsCsv(report), '\n');
  ASSERT_EQ(lines.size(), 4u);  // the last is empty
  EXPECT_EQ(lines[1], "1,request,UNAVAILABLE,0,-1.500000,0.001000,2.000000,,,,,,,,,");
  EXPECT_EQ(
      lines[2],
      "8,request,OK,1,0.000001,0.000000,3.000000,,16,100,200,0.010000,0.020000,0.030000,77,2");
  report.subject.decode.emplace();
  report.levels[1].result.records[0].is_prompt = true;
  EXPECT_THAT(RecordsCsv(report), HasSubstr("8,prompt,OK,1,"));
  EXPECT_THAT(RecordsCsv(report), HasSubstr("1,step,UNAVAILABLE,0,"));
}

}  // namespace
}  // namespace attention
