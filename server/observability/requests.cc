#include "server/observability/requests.h"

#include <chrono>
#include <optional>
#include <utility>

#include "core/runtime/presented_status.h"

namespace attention {
namespace {

double Milliseconds(int64_t ns) { return static_cast<double>(ns) / 1e6; }

// Returns whether a request failed. Cancelled requests did not.
bool IsFailure(const RequestRecord& record) {
  return !record.status.ok() && !absl::IsCancelled(record.status);
}

}  // namespace

LogEvent EventOf(const RequestRecord& r) {
  LogEvent event = {.level = IsFailure(r) ? LogLevel::kWarning : LogLevel::kInfo,
                    .text = "request",
                    .fields = {{"request_id", r.request_id},
                               {"rpc", std::string(r.rpc)},
                               {"model", r.model},
                               {"code", absl::StatusCodeToString(r.status.code())},
                               {"bytes", r.request_bytes},
                               {"tokens", r.tokens},
                               {"total_ms", Milliseconds(r.total_ns)},
                               {"receive_ms", Milliseconds(r.receive_ns)},
                               {"queue_ms", Milliseconds(r.queue_ns)},
                               {"compute_ms", Milliseconds(r.compute_ns)},
                               {"send_ms", Milliseconds(r.send_ns)}}};
  LogFields& fields = event.fields;
  if (r.batch_id > 0) {
    fields.push_back({"batch", r.batch_id});
    fields.push_back({"batch_requests", r.batch_requests});
  }
  if (!r.peer.empty()) {
    fields.push_back({"peer", r.peer});
  }
  if (!r.tenant.empty()) {
    fields.push_back({"tenant", r.tenant});
  }
  if (!r.trace.trace_id.empty()) {
    fields.push_back({"trace_id", r.trace.trace_id});
    if (!r.trace.span_id.empty()) {
      fields.push_back({"span_id", r.trace.span_id});
    }
  }
  if (const std::optional<RefusalReason> reason = ReasonOf(r.status)) {
    fields.push_back({"refused_for", std::string(Name(*reason))});
  }
  if (!r.status.ok()) {
    fields.push_back({"error", std::string(r.status.message())});
  }
  return event;
}

void RequestObserver::LogRequest(const RequestRecord& record) {
  const LoggedRequests logged = logged_;
  const bool is_failure = IsFailure(record);
  const LogLevel level = is_failure ? LogLevel::kWarning : LogLevel::kInfo;
  if (logged == LoggedRequests::kNone || (logged == LoggedRequests::kFailed && !is_failure) ||
      level < CurrentLogLevel()) {
    return;
  }
  if (logged == LoggedRequests::kAll || failures_.Take()) {
    Log(EventOf(record));
  }
}

void RequestObserver::OnEnd(RequestRecord record) {
  record.status = Presented(record.status);
  record.total_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                        std::chrono::steady_clock::now() - record.arrival)
                        .count();
  counter_.Count(record);
  if (exporter_ != nullptr) {
    exporter_->Trace(record);
  }
  LogRequest(record);
}

}  // namespace attention
