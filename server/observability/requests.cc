#include "server/observability/requests.h"

#include <chrono>
#include <optional>
#include <utility>

namespace attention {
namespace {

// About failures, a second: a flood of them must not fill the disk.
constexpr int64_t kMaxLines = 20;

double Milliseconds(int64_t ns) { return static_cast<double>(ns) / 1e6; }

// Callers that go away are no news.
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

bool RequestObserver::TakeLine() {
  const int64_t second = std::chrono::duration_cast<std::chrono::seconds>(
                             std::chrono::steady_clock::now().time_since_epoch())
                             .count();
  if (second != second_) {
    second_ = second;
    lines_ = 0;
  }
  if (lines_ == kMaxLines) {
    ++left_out_;
    return false;
  }
  ++lines_;
  return true;
}

void RequestObserver::LogRequest(const RequestRecord& record) {
  const LoggedRequests logged = logged_;
  const bool is_failure = IsFailure(record);
  const LogLevel level = is_failure ? LogLevel::kWarning : LogLevel::kInfo;
  if (logged == LoggedRequests::kNone || (logged == LoggedRequests::kFailed && !is_failure) ||
      level < CurrentLogLevel()) {
    return;
  }
  int64_t left_out = 0;
  if (logged == LoggedRequests::kFailed) {
    MutexLock lock(mutex_);
    if (!TakeLine()) {
      return;
    }
    left_out = std::exchange(left_out_, 0);
  }
  LogEvent event = EventOf(record);
  if (left_out > 0) {
    event.fields.push_back({"lines_left_out", left_out});
  }
  Log(event);
}

void RequestObserver::OnEnd(RequestRecord record) {
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
