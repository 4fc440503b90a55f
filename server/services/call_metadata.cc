#include "server/services/call_metadata.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/runtime/status_macros.h"
#include "server/scheduling/refusal.h"

namespace attention {
namespace {

constexpr size_t kMaxValueBytes = 128;

std::string ValueOf(const grpc::ServerContext& context, const char* key) {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find(key);
  return found == metadata.end() ? "" : std::string(found->second.data(), found->second.size());
}

std::optional<Priority> ParsePriority(const std::string& text) {
  for (const Priority priority : {Priority::kHigh, Priority::kNormal, Priority::kLow}) {
    if (text == Name(priority)) {
      return priority;
    }
  }
  return text.empty() ? std::optional(Priority::kNormal) : std::nullopt;
}

// Unlike any other of this process, and most likely of any other process.
std::string MakeRequestId() {
  static const uint32_t process = std::random_device()();
  static std::atomic<uint64_t> next = 0;
  return absl::StrFormat("%08x-%x", process, next++);
}

bool IsPrintable(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

}  // namespace

absl::StatusOr<CallMetadata> ReadMetadata(const grpc::ServerContext& context, const Access& access,
                                          std::string_view rpc) {
  CallMetadata metadata;
  ASSIGN_OR_RETURN(metadata.caller, access.Admit(context, Right::kCall, rpc));
  metadata.request_id = ValueOf(context, "x-request-id");
  metadata.request_class.tenant = ValueOf(context, "attend-tenant");
  for (const auto& [key, value] : {std::pair("x-request-id", &metadata.request_id),
                                   std::pair("attend-tenant", &metadata.request_class.tenant)}) {
    if (value->size() > kMaxValueBytes || !IsPrintable(*value)) {
      return absl::InvalidArgumentError(
          absl::StrCat("metadata ", key, ": expected at most ", kMaxValueBytes,
                       " printable characters, found ", value->size(), " bytes"));
    }
  }
  const std::string priority = ValueOf(context, "attend-priority");
  const std::optional<Priority> parsed = ParsePriority(priority);
  if (!parsed.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "metadata attend-priority: expected high, normal or low, found \"", priority, "\""));
  }
  SetPriority(*parsed, metadata);
  if (!metadata.caller.tenant.empty()) {
    metadata.request_class.tenant = metadata.caller.tenant;
  }
  if (metadata.request_id.empty()) {
    metadata.request_id = MakeRequestId();
  }
  metadata.trace = ParseTraceparent(ValueOf(context, "traceparent")).value_or(TraceContext());
  return metadata;
}

void SetPriority(Priority priority, CallMetadata& metadata) {
  metadata.request_class.priority = metadata.caller.Cap(priority);
}

void Record(const CallMetadata& metadata, RequestRecord& record) {
  record.request_id = metadata.request_id;
  record.trace = metadata.trace;
  record.tenant = metadata.request_class.tenant;
}

void Record(const BatchStats& stats, RequestRecord& record) {
  record.queue_ns = stats.queue_ns;
  record.compute_ns = stats.compute_ns;
  record.batch_id = static_cast<int64_t>(stats.batch_id);
  record.batch_requests = stats.batch_requests;
}

void AddRefusalTrailers(const absl::Status& status, grpc::ServerContext& context) {
  const std::optional<Refusal> refusal = RefusalOf(status);
  if (refusal.has_value()) {
    context.AddTrailingMetadata("grpc-retry-pushback-ms", absl::StrCat(refusal->retry_after_ms));
    context.AddTrailingMetadata("attend-estimated-wait-ms",
                                absl::StrCat(refusal->estimated_wait_ms));
  }
}

// gRPC counts deadlines by the wall clock.
TimePoint SteadyDeadline(const grpc::ServerContext& context, TimePoint now) {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) {
    return TimePoint::max();
  }
  return now + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                   deadline - std::chrono::system_clock::now());
}

}  // namespace attention
