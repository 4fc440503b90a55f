#include "server/services/calls/call_metadata.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <optional>
#include <random>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/runtime/status_macros.h"
#include "server/log/log.h"
#include "server/scheduling/refusal.h"

namespace attention {
namespace {

constexpr size_t kMaxValueBytes = 128;
constexpr int64_t kLastSecond = std::numeric_limits<int64_t>::max() / 1'000'000'000;

std::string ValueOf(const grpc::ServerContext& context, const char* key) {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find(key);
  return found == metadata.end() ? "" : std::string(found->second.data(), found->second.size());
}

// Returns the values of a header that may be repeated, as one list: RFC 9110, section 5.3.
std::string ValuesOf(const grpc::ServerContext& context, const char* key) {
  const auto [begin, end] = context.client_metadata().equal_range(key);
  return absl::StrJoin(begin, end, ",", [](std::string* out, const auto& entry) {
    out->append(entry.second.data(), entry.second.size());
  });
}

// Returns an id that is unique in this process, and very likely among processes.
std::string MakeRequestId() {
  static const uint32_t process = std::random_device()();
  static std::atomic<uint64_t> next = 0;
  return absl::StrCat(absl::Hex(process, absl::kZeroPad8), "-", absl::Hex(next++));
}

bool IsName(const std::string& text) {
  return text.size() <= kMaxValueBytes &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

}  // namespace

CallMetadata IdentifyCall(const grpc::ServerContext& context) {
  CallMetadata metadata;
  metadata.peer = context.peer();
  metadata.request_id = ValueOf(context, "x-request-id");
  if (metadata.request_id.empty() || !IsName(metadata.request_id)) {
    metadata.request_id = MakeRequestId();
  }
  if (auto trace = ParseTraceparent(ValueOf(context, "traceparent"))) {
    metadata.trace = *std::move(trace);
    metadata.trace.state = ParseTracestate(ValuesOf(context, "tracestate"));
  }
  return metadata;
}

absl::Status ReadMetadata(const grpc::ServerContext& context, const Access& access,
                          CallMetadata& metadata) {
  ASSIGN_OR_RETURN(metadata.caller, access.Admit(context, Right::kCall, /*rpc=*/""));
  for (const char* const key : {"x-request-id", "attend-tenant"}) {
    if (const std::string value = ValueOf(context, key); !IsName(value)) {
      return absl::InvalidArgumentError(
          absl::StrCat("metadata ", key, ": expected at most ", kMaxValueBytes,
                       " printable characters, found ", value.size(), " bytes"));
    }
  }
  const std::string priority = ValueOf(context, "attend-priority");
  const std::optional<Priority> parsed =
      priority.empty() ? Priority::kNormal : PriorityNamed(priority);
  if (!parsed.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "metadata attend-priority: expected high, normal or low, found \"", priority, "\""));
  }
  SetPriority(*parsed, metadata);
  metadata.request_class.tenant =
      metadata.caller.tenant.empty() ? ValueOf(context, "attend-tenant") : metadata.caller.tenant;
  metadata.request_class.account = metadata.caller.account;
  return absl::OkStatus();
}

void SetPriority(Priority priority, CallMetadata& metadata) {
  metadata.request_class.priority = metadata.caller.LimitPriority(priority);
}

void Record(const CallMetadata& metadata, RequestRecord& record) {
  record.request_id = metadata.request_id;
  record.trace = metadata.trace;
  record.tenant = metadata.request_class.tenant;
  record.peer = metadata.peer;
}

RequestRecord RecordOf(const grpc::ServerContext& context, std::string_view rpc, TimePoint arrival,
                       const absl::Status& status) {
  RequestRecord record;
  record.rpc = rpc;
  record.arrival = arrival;
  record.status = status;
  const CallMetadata metadata = IdentifyCall(context);
  Record(metadata, record);
  return record;
}

void Record(const BatchStats& stats, RequestRecord& record) {
  record.queue_ns = stats.queue_ns;
  record.compute_ns = stats.compute_ns;
  record.batch_id = static_cast<int64_t>(stats.batch_id);
  record.batch_requests = stats.batch_requests;
  record.cached_tokens = stats.cached_tokens;
}

absl::Status ReplyNotRead() {
  return Refuse(
      absl::StatusCode::kResourceExhausted,
      "the caller did not read the answer in time (--reply-patience), and others need its memory "
      "(--max-reply-bytes)",
      {.reason = RefusalReason::kReplyBytes});
}

void AddRefusalTrailers(const absl::Status& status, grpc::ServerContext& context) {
  const std::optional<Refusal> refusal = RefusalOf(status);
  if (refusal.has_value() && refusal->retry_after_ms > 0) {
    context.AddTrailingMetadata("grpc-retry-pushback-ms", absl::StrCat(refusal->retry_after_ms));
    context.AddTrailingMetadata("attend-estimated-wait-ms",
                                absl::StrCat(refusal->estimated_wait_ms));
  }
}

void LogAdministration(const grpc::ServerContext& context, const Caller& caller,
                       std::string_view rpc, const google::protobuf::Message& request) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  printer.PrintToString(request, &text);
  LogEvent event = {.text = "an administrator's call",
                    .fields = {{"rpc", std::string(rpc)},
                               {"request", std::string(absl::StripAsciiWhitespace(text))},
                               {"peer", context.peer()}}};
  if (!caller.tenant.empty()) {
    event.fields.push_back({"tenant", caller.tenant});
  }
  Log(event);
}

std::string OwnerOf(const grpc::ServerContext& context, const CallMetadata& metadata) {
  const RequestClass& caller = metadata.request_class;
  return caller.tenant.empty() ? context.peer() : absl::StrCat(caller.account, "/", caller.tenant);
}

// gRPC counts deadlines by the wall clock.
TimePoint SteadyDeadline(const grpc::ServerContext& context, TimePoint now) {
  const auto deadline = context.deadline();
  // A deadline that the clock cannot represent counts as none.
  if (context.raw_deadline().tv_sec > kLastSecond ||
      deadline == std::chrono::system_clock::time_point::max()) {
    return TimePoint::max();
  }
  return now + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                   deadline - std::chrono::system_clock::now());
}

}  // namespace attention
