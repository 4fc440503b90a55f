// Finished requests are counted, logged and traced.
#pragma once

#include <atomic>
#include <cstdint>

#include "server/log/line_limit.h"
#include "server/log/log.h"
#include "server/observability/request_counts.h"
#include "server/observability/request_record.h"
#include "server/observability/span_exporter.h"

namespace attention {

/// The requests that have a line in the log.
enum class LoggedRequests { kNone, kFailed, kAll };

/// Returns the log line of a request.
LogEvent EventOf(const RequestRecord& record);

/// Receives finished requests. Thread-safe.
class RequestObserver {
 public:
  explicit RequestObserver(LoggedRequests logged) : logged_(logged) {}

  /// Sets the exporter of traces, which outlives this; without one, traces are not exported.
  /// REQUIRES: called before OnEnd.
  void set_exporter(SpanExporter* exporter) { exporter_ = exporter; }

  /// Counts, traces and logs a finished request. Takes locks that are held for a short time, and
  /// waits for no input or output if the log has its own thread (StartAsyncLog).
  void OnEnd(RequestRecord record);
  /// Counts a message of an answer that is being sent.
  void OnSend(int64_t size_bytes) { sent_bytes_.fetch_add(size_bytes, std::memory_order_relaxed); }

  const RequestCounter& counter() const { return counter_; }
  int64_t sent_bytes() const { return sent_bytes_.load(std::memory_order_relaxed); }

  LoggedRequests logged() const { return logged_; }
  void set_logged(LoggedRequests logged) { logged_ = logged; }

 private:
  void LogRequest(const RequestRecord& record);

  std::atomic<LoggedRequests> logged_;
  SpanExporter* exporter_ = nullptr;
  RequestCounter counter_;
  std::atomic<int64_t> sent_bytes_ = 0;
  LineLimit failures_{"failed requests"};
};

}  // namespace attention
