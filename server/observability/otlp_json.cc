#include "server/observability/otlp_json.h"

#include <unistd.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/runtime/json_text.h"
#include "nlohmann/json.hpp"

namespace attention {
namespace {

using Json = nlohmann::ordered_json;

// Constants of opentelemetry.proto.trace.v1.
constexpr int kInternal = 1;
constexpr int kServer = 2;
constexpr int kError = 2;

Json Attribute(const char* key, const std::string& value) {
  return {{"key", key}, {"value", {{"stringValue", value}}}};
}
// 64-bit numbers are texts in protobuf's JSON.
Json Attribute(const char* key, int64_t value) {
  return {{"key", key}, {"value", {{"intValue", absl::StrCat(value)}}}};
}

std::string ServiceOf(const RequestRecord& record) {
  if (record.rpc == "Check" || record.rpc == "Watch") {
    return "grpc.health.v1.Health";
  }
  if (record.rpc == "ServerReflectionInfo") {
    return "grpc.reflection.v1.ServerReflection";  // or its v1alpha, which is the same service
  }
  for (const char* const prefix :
       {"Model", "Repository", "Server", "SystemSharedMemory", "CudaSharedMemory"}) {
    if (record.rpc.starts_with(prefix)) {
      return "inference.GRPCInferenceService";
    }
  }
  return "attention.v1.AttentionService";
}

// Returns the method: "Decode" for "Decode.step".
std::string MethodOf(const RequestRecord& record) {
  return std::string(record.rpc.substr(0, record.rpc.find('.')));
}

// Returns whether the status is a fault of the server, by OpenTelemetry's conventions for gRPC
// servers.
bool IsServerError(const absl::Status& status) {
  return absl::IsUnknown(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsUnimplemented(status) || absl::IsInternal(status) || absl::IsUnavailable(status) ||
         absl::IsDataLoss(status);
}

Json AttributesOf(const RequestRecord& r) {
  Json attributes = {Attribute("rpc.system", "grpc"),
                     Attribute("rpc.service", ServiceOf(r)),
                     Attribute("rpc.method", MethodOf(r)),
                     Attribute("rpc.grpc.status_code", static_cast<int64_t>(r.status.code())),
                     Attribute("attend.request_id", r.request_id),
                     Attribute("attend.request_bytes", r.request_bytes)};
  if (!r.model.empty()) {
    attributes.push_back(Attribute("attend.model", r.model));
    attributes.push_back(Attribute("attend.model_version", r.model_version));
  }
  if (!r.tenant.empty()) {
    attributes.push_back(Attribute("attend.tenant", r.tenant));
  }
  if (r.tokens > 0) {
    attributes.push_back(Attribute("attend.tokens", r.tokens));
  }
  if (r.batch_id > 0) {
    attributes.push_back(Attribute("attend.batch_id", r.batch_id));
    attributes.push_back(Attribute("attend.batch_requests", r.batch_requests));
  }
  if (!r.status.ok()) {
    attributes.push_back(Attribute("attend.error", std::string(r.status.message())));
  }
  return attributes;
}

// An interval in nanoseconds since the epoch.
struct Interval {
  int64_t begin = 0;
  int64_t end = 0;
};

Json Span(const std::string& name, const TraceContext& trace, const std::string& span_id,
          const Interval& time) {
  Json span = {{"traceId", trace.trace_id},
               {"spanId", span_id},
               {"name", name},
               {"startTimeUnixNano", absl::StrCat(time.begin)},
               {"endTimeUnixNano", absl::StrCat(time.end)}};
  if (!trace.state.empty()) {
    span["traceState"] = trace.state;
  }
  return span;
}

Json ServerSpan(const RequestRecord& record, const Interval& time) {
  Json span = Span(absl::StrCat(ServiceOf(record), "/", std::string(record.rpc)), record.trace,
                   record.trace.span_id, time);
  span["kind"] = kServer;
  if (!record.trace.parent_id.empty()) {
    span["parentSpanId"] = record.trace.parent_id;
  }
  span["attributes"] = AttributesOf(record);
  if (IsServerError(record.status)) {
    span["status"] = {{"code", kError}, {"message", std::string(record.status.message())}};
  }
  return span;
}

void AddSpans(const TracedRequest& request, Json& spans) {
  const RequestRecord& record = request.record;
  const int64_t end = request.end_unix_ns;
  const int64_t begin = end - record.total_ns;
  spans.push_back(ServerSpan(record, {begin, end}));
  const auto add = [&](const char* name, const Interval& time) {
    Json span = Span(name, record.trace, MakeSpanId(), time);
    span["parentSpanId"] = record.trace.span_id;
    span["kind"] = kInternal;
    spans.push_back(std::move(span));
  };
  const int64_t received = begin + record.receive_ns;
  if (record.receive_ns > 0) {
    add("receive", {begin, received});
  }
  if (record.batch_id > 0) {
    const int64_t taken = received + record.queue_ns;
    add("queue", {received, taken});
    add("compute", {taken, taken + record.compute_ns});
  }
  if (record.status.ok()) {
    add("send", {end - record.send_ns, end});
  }
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

}  // namespace

std::string ToOtlpJson(const std::vector<TracedRequest>& requests, const std::string& version) {
  static const std::string instance = absl::StrCat(HostName(), ":", getpid());
  Json spans = Json::array();
  for (const TracedRequest& request : requests) {
    AddSpans(request, spans);
  }
  const Json resource = {
      {"attributes",
       {Attribute("service.name", "attend-server"), Attribute("service.version", version),
        Attribute("service.instance.id", instance)}}};
  const Json scope = {{"name", "attend"}, {"version", version}};
  const Json scope_spans = {{"scope", scope}, {"spans", std::move(spans)}};
  const Json resource_spans = {{"resource", resource}, {"scopeSpans", Json::array({scope_spans})}};
  const Json all = {{"resourceSpans", Json::array({resource_spans})}};
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

RejectedSpans ReadRejectedSpans(const std::string& response) {
  using nlohmann::json;
  const absl::StatusOr<json> parsed = ParseJsonObject(response, "response");
  const json partial = parsed.ok() ? parsed->value("partialSuccess", json()) : json();
  if (!partial.is_object()) {
    return {};
  }
  RejectedSpans rejected;
  const json count = partial.value("rejectedSpans", json());
  if (count.is_number_integer()) {
    rejected.count = count.get<int64_t>();
  } else if (count.is_string() && !absl::SimpleAtoi(count.get<std::string>(), &rejected.count)) {
    rejected.count = 0;
  }
  if (const json why = partial.value("errorMessage", json()); why.is_string()) {
    rejected.why = why.get<std::string>();
  }
  return rejected;
}

}  // namespace attention
