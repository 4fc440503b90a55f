// Traces on their way to a collector, which may be slow, busy or gone.
#include "server/observability/span_exporter.h"

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "server/observability/telemetry.h"
#include "tests/server/observability/http_receiver.h"
#include "tests/support/eventually.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr char kSentTrace[] = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr char kSentParent[] = "00f067aa0ba902b7";

RequestRecord Record(const TraceContext& trace) {
  return {.rpc = "Attend", .model = "demo", .request_id = "r-1", .trace = trace, .total_ns = 900};
}
RequestRecord Sampled() {
  return Record({.trace_id = kSentTrace, .parent_id = kSentParent, .is_sampled = true});
}

std::unique_ptr<SpanExporter> ExporterTo(const std::string& endpoint, double ratio = 1) {
  return *SpanExporter::Create({.endpoint = endpoint, .sample_ratio = ratio, .version = "9.9"});
}

nlohmann::json SpansOf(const std::string& body) {
  return nlohmann::json::parse(body)["resourceSpans"][0]["scopeSpans"][0]["spans"];
}

TEST(SpanExporterTest, PostsSpansOfARequestAsOtlpJson) {
  HttpReceiver collector;
  const auto exporter = ExporterTo(collector.url());
  RequestRecord record = Sampled();
  exporter->Trace(record);
  const auto [head, body] = collector.Await(1).front();
  EXPECT_THAT(head, StartsWith("POST /v1/traces HTTP/1.1\r\n"));
  EXPECT_THAT(head, HasSubstr("\r\nContent-Type: application/json"));
  const nlohmann::json spans = SpansOf(body);
  ASSERT_THAT(spans, SizeIs(2));  // of the server, and of sending
  EXPECT_EQ(spans[0]["traceId"], kSentTrace);
  EXPECT_EQ(spans[0]["parentSpanId"], kSentParent);
  EXPECT_EQ(spans[0]["spanId"], record.trace.span_id);
}

TEST(SpanExporterTest, SendsTheHeadersOfAFileAsTheyAreThen) {
  const TempFolder folder;
  const std::string path =
      folder.Write("headers", "# of the collector\n\nX-Key: one\nX-Team: a b\n");
  HttpReceiver collector;
  const auto exporter = *SpanExporter::Create({.endpoint = collector.url(), .header_file = path});
  RequestRecord first = Sampled();
  exporter->Trace(first);
  EXPECT_THAT(collector.Await(1)[0].first,
              AllOf(HasSubstr("\r\nX-Key: one\r\n"), HasSubstr("\r\nX-Team: a b\r\n"),
                    HasSubstr("\r\nContent-Type: application/json\r\n")));
  folder.Write("headers", "X-Key: two\n");
  RequestRecord second = Sampled();
  exporter->Trace(second);
  EXPECT_THAT(collector.Await(2)[1].first, HasSubstr("\r\nX-Key: two\r\n"));
}

TEST(SpanExporterTest, RefusesAFileThatHoldsNoHeadersAndKeepsItsSecret) {
  const TempFolder folder;
  const std::string path = folder.Write("headers", "X-Key: one\nsecret\n");
  EXPECT_THAT(StartTraces({.endpoint = "http://127.0.0.1:1", .header_file = path}),
              StatusIs(kInvalid, "--otlp-headers: " + path + ": line 2: expected NAME: VALUE"));
  EXPECT_THAT(StartTraces({.endpoint = "http://127.0.0.1:1", .header_file = path + "?"}),
              StatusIs(kNotFound, StartsWith("--otlp-headers: ")));
}

TEST(SpanExporterTest, ATraceThatIsNotSampledGoesNowhere) {
  HttpReceiver collector;
  {
    const auto exporter = ExporterTo(collector.url());
    RequestRecord quiet =
        Record({.trace_id = kSentTrace, .parent_id = kSentParent, .is_sampled = false});
    exporter->Trace(quiet);
    EXPECT_THAT(quiet.trace.span_id, IsEmpty());
    RequestRecord loud = Sampled();
    exporter->Trace(loud);
  }
  const auto received = collector.Await(1);
  EXPECT_THAT(received, SizeIs(1));
  EXPECT_THAT(SpansOf(received[0].second), SizeIs(2));
}

TEST(SpanExporterTest, ARequestWithoutATraceBeginsOneByTheRatio) {
  HttpReceiver collector;
  RequestRecord record = Record({});
  ExporterTo(collector.url(), 0)->Trace(record);
  EXPECT_THAT(record.trace.trace_id, IsEmpty());
  ExporterTo(collector.url(), 1)->Trace(record);
  EXPECT_THAT(record.trace.trace_id, SizeIs(32));
  const nlohmann::json spans = SpansOf(collector.Await(1)[0].second);
  EXPECT_FALSE(spans[0].contains("parentSpanId"));
}

TEST(SpanExporterTest, WhatWaitsAtTheEndIsSent) {
  HttpReceiver collector;
  {
    const auto exporter = ExporterTo(collector.url());
    for (int i = 0; i < 3; ++i) {
      RequestRecord record = Sampled();
      exporter->Trace(record);
    }
  }
  size_t spans = 0;
  for (const auto& [head, body] : collector.Await(1)) {
    spans += SpansOf(body).size();
  }
  EXPECT_EQ(spans, 6u);
}

TEST(SpanExporterTest, TriesAgainWhenTheCollectorIsBusy) {
  HttpReceiver collector({"503 Service Unavailable", "429 Too Many Requests\r\nRetry-After: 1"});
  const auto exporter = ExporterTo(collector.url());
  RequestRecord record = Sampled();
  exporter->Trace(record);
  const auto received = collector.Await(3);
  EXPECT_EQ(received[0].second, received[2].second);
}

TEST(SpanExporterTest, DropsWhatTheCollectorWillNeverTake) {
  HttpReceiver collector({"400 Bad Request"});
  const auto exporter = ExporterTo(collector.url());
  RequestRecord record = Sampled();
  exporter->Trace(record);
  collector.Await(1);
  exporter->Trace(record);
  collector.Await(2);
  EXPECT_TRUE(Eventually([&] { return exporter->statistics().exported > 0; }));
  EXPECT_EQ(exporter->statistics().dropped, 1);
}

TEST(SpanExporterTest, CountsWhatTheCollectorRejectsOfABatchThatItTakes) {
  HttpReceiver collector(
      {"200 OK\r\n\r\n{\"partialSuccess\":{\"rejectedSpans\":\"7\",\"errorMessage\":\"full\"}}"});
  const auto exporter = ExporterTo(collector.url());
  RequestRecord record = Sampled();
  ::testing::internal::CaptureStderr();
  exporter->Trace(record);
  collector.Await(1);
  EXPECT_TRUE(Eventually([&] { return exporter->statistics().dropped > 0; }));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("it rejected 7 spans: full"));
  EXPECT_EQ(exporter->statistics().exported, 0);
  exporter->Trace(record);
  EXPECT_TRUE(Eventually([&] { return exporter->statistics().exported > 0; }));
  EXPECT_EQ(exporter->statistics().dropped, 1);
}

TEST(SpanExporterTest, DropsWhatFindsNoRoomAndNeverBlocks) {
  const ListeningSockets deaf = *ListenOn("127.0.0.1:0");  // nobody accepts, nobody answers
  const auto exporter = ExporterTo("http://" + deaf.address);
  constexpr int64_t kMany = 3 * SpanExporter::kMaxWaiting;
  for (int64_t i = 0; i < kMany; ++i) {
    RequestRecord record = Sampled();
    exporter->Trace(record);
  }
  const TraceStatistics statistics = exporter->statistics();
  // Some may have left for the batch that is under way.
  EXPECT_GE(statistics.dropped,
            kMany - int64_t{SpanExporter::kMaxWaiting + SpanExporter::kMaxBatch});
  EXPECT_EQ(statistics.exported, 0);
}

TEST(SpanExporterTest, RefusesAnEndpointOrARatioThatCannotBe) {
  EXPECT_THAT(SpanExporter::Create({.endpoint = "collector:4318"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("expected a URL http://HOST:PORT or https://HOST:PORT, found "
                                 "collector:4318")));
  EXPECT_THAT(SpanExporter::Create({.endpoint = "http://a:b:c"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("found http://a:b:c")));
  for (const std::string url : {"http://", "https://", "http://:4318", "http:///v1"}) {
    EXPECT_THAT(SpanExporter::Create({.endpoint = url}),
                StatusIs(absl::StatusCode::kInvalidArgument, EndsWith("found " + url)));
  }
  for (const std::string url :
       {"user:word@host", "http:/user:word@host", "http:///user:word@host"}) {
    EXPECT_THAT(SpanExporter::Create({.endpoint = url}),
                StatusIs(absl::StatusCode::kInvalidArgument, EndsWith("found hidden@host")));
  }
}

}  // namespace
}  // namespace attention
