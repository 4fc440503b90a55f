#include "server/observability/otlp_json.h"

#include <map>

#include "gmock/gmock.h"
#include "nlohmann/json.hpp"

namespace attention {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

constexpr int64_t kEnd = 1'767'225'600'000'000'000;

TracedRequest Computed() {
  return {{.rpc = "ModelInfer",
           .model = "gpt2",
           .model_version = 3,
           .request_id = "r-7",
           .trace = {.trace_id = "4bf92f3577b34da6a3ce929d0e0e4736",
                     .parent_id = "00f067aa0ba902b7",
                     .span_id = "0102030405060708",
                     .is_sampled = true,
                     .state = "congo=1"},
           .total_ns = 1000,
           .receive_ns = 100,
           .queue_ns = 200,
           .compute_ns = 300,
           .send_ns = 350,
           .tokens = 12,
           .batch_id = 5,
           .batch_requests = 4,
           .request_bytes = 77},
          kEnd};
}

json SpansOf(const TracedRequest& request) {
  return json::parse(ToOtlpJson({request}, "1.2"))["resourceSpans"][0]["scopeSpans"][0]["spans"];
}

std::map<std::string, std::string> Attributes(const json& owner) {
  std::map<std::string, std::string> attributes;
  for (const json& attribute : owner["attributes"]) {
    attributes[attribute["key"]] = attribute["value"].begin().value();
  }
  return attributes;
}

std::string Offsets(const json& span) {
  const auto offset = [&](const char* key) {
    return std::to_string(std::stoll(span[key].get<std::string>()) - (kEnd - 1000));
  };
  return span["name"].get<std::string>() + " " + offset("startTimeUnixNano") + " " +
         offset("endTimeUnixNano");
}

TEST(OtlpJsonTest, SaysWhoSends) {
  const json all = json::parse(ToOtlpJson({Computed()}, "1.2"));
  const auto resource = Attributes(all["resourceSpans"][0]["resource"]);
  EXPECT_EQ(resource.at("service.name"), "attend-server");
  EXPECT_EQ(resource.at("service.version"), "1.2");
  EXPECT_FALSE(resource.at("service.instance.id").empty());
}

TEST(OtlpJsonTest, PhasesFollowEachOtherWithinTheRequest) {
  std::vector<std::string> phases;
  for (const json& span : SpansOf(Computed())) {
    phases.push_back(Offsets(span));
  }
  EXPECT_THAT(phases,
              ElementsAre("inference.GRPCInferenceService/ModelInfer 0 1000", "receive 0 100",
                          "queue 100 300", "compute 300 600", "send 650 1000"));
}

TEST(OtlpJsonTest, PhasesAreChildrenOfTheServersSpanAndThatOfTheCallers) {
  const json spans = SpansOf(Computed());
  EXPECT_EQ(spans[0]["parentSpanId"], "00f067aa0ba902b7");
  EXPECT_EQ(spans[0]["spanId"], "0102030405060708");
  EXPECT_EQ(spans[0]["kind"], 2);
  for (size_t i = 1; i < spans.size(); ++i) {
    EXPECT_EQ(spans[i]["parentSpanId"], "0102030405060708");
    EXPECT_EQ(spans[i]["traceId"], spans[0]["traceId"]);
    EXPECT_EQ(spans[i]["traceState"], "congo=1");
    EXPECT_EQ(spans[i]["kind"], 1);
    EXPECT_NE(spans[i]["spanId"], spans[i - 1]["spanId"]);
  }
}

TEST(OtlpJsonTest, TheServersSpanSaysWhatWasComputed) {
  using Pair = std::pair<const std::string, std::string>;
  EXPECT_THAT(Attributes(SpansOf(Computed())[0]),
              UnorderedElementsAre(
                  Pair("rpc.system", "grpc"), Pair("rpc.service", "inference.GRPCInferenceService"),
                  Pair("rpc.method", "ModelInfer"), Pair("rpc.grpc.status_code", "0"),
                  Pair("attend.request_id", "r-7"), Pair("attend.request_bytes", "77"),
                  Pair("attend.model", "gpt2"), Pair("attend.model_version", "3"),
                  Pair("attend.tokens", "12"), Pair("attend.batch_id", "5"),
                  Pair("attend.batch_requests", "4")));
}

TEST(OtlpJsonTest, EachMethodHasItsService) {
  for (const auto& [rpc, service] :
       {std::pair("Watch", "grpc.health.v1.Health"),
        std::pair("ServerReflectionInfo", "grpc.reflection.v1.ServerReflection"),
        std::pair("ServerMetadata", "inference.GRPCInferenceService"),
        std::pair("CudaSharedMemoryStatus", "inference.GRPCInferenceService"),
        std::pair("Attend", "attention.v1.AttentionService")}) {
    TracedRequest request = Computed();
    request.record.rpc = rpc;
    EXPECT_EQ(Attributes(SpansOf(request)[0]).at("rpc.service"), service) << rpc;
  }
}

TEST(OtlpJsonTest, AStepOfASessionIsAnActionOfItsMethod) {
  TracedRequest step = Computed();
  step.record.rpc = "Decode.step";
  const json span = SpansOf(step)[0];
  EXPECT_EQ(span["name"], "attention.v1.AttentionService/Decode.step");
  EXPECT_EQ(Attributes(span).at("rpc.method"), "Decode");
}

TEST(OtlpJsonTest, ARefusedRequestHasOneSpanAndWhy) {
  TracedRequest refused = {{.rpc = "Attend",
                            .trace = Computed().record.trace,
                            .status = absl::UnavailableError("the server is draining"),
                            .total_ns = 1000},
                           kEnd};
  const json spans = SpansOf(refused);
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans[0]["status"]["code"], 2);
  EXPECT_EQ(spans[0]["status"]["message"], "the server is draining");
  EXPECT_EQ(Attributes(spans[0]).at("rpc.grpc.status_code"), "14");
}

TEST(OtlpJsonTest, ACallersMistakeIsNoErrorOfTheServers) {
  TracedRequest wrong = Computed();
  wrong.record.status = absl::InvalidArgumentError("shape: \xff");
  const json span = SpansOf(wrong)[0];
  EXPECT_FALSE(span.contains("status"));
  EXPECT_EQ(Attributes(span).at("attend.error"), "shape: \xef\xbf\xbd");
}

TEST(OtlpJsonTest, ReadsWhatWasRejected) {
  const RejectedSpans rejected =
      ReadRejectedSpans(R"({"partialSuccess": {"rejectedSpans": "3", "errorMessage": "quota"}})");
  EXPECT_EQ(rejected.count, 3);
  EXPECT_EQ(rejected.why, "quota");
  EXPECT_EQ(ReadRejectedSpans(R"({"partialSuccess": {"rejectedSpans": 2}})").count, 2);
  for (const char* other :
       {"", "{}", "[1]", "no", R"({"partialSuccess": {}})", R"({"partialSuccess": null})",
        R"({"partialSuccess": {"rejectedSpans": "many", "errorMessage": 1}})"}) {
    EXPECT_EQ(ReadRejectedSpans(other).count, 0) << other;
  }
}

}  // namespace
}  // namespace attention
