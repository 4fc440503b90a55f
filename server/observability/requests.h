// What became of requests: counted, logged, traced.
#pragma once

#include <atomic>
#include <cstdint>

#include "server/observability/line_limit.h"
#include "server/observability/log.h"
#include "server/observability/request_counts.h"
#include "server/observability/request_record.h"
#include "server/observability/span_exporter.h"

namespace attention {

/// Which requests have a line in the log.
enum class LoggedRequests { kNone, kFailed, kAll };

/// The line of a request.
LogEvent EventOf(const RequestRecord& record);

/// Thread-safe.
class RequestObserver {
 public:
  explicit RequestObserver(LoggedRequests logged) : logged_(logged) {}

  /// Gets the traces, and outlives this; without one they go nowhere. REQUIRES: OnEnd comes later.
  void set_exporter(SpanExporter* exporter) { exporter_ = exporter; }

  /// Does not block.
  void OnEnd(RequestRecord record);
  /// A message of an answer is on its way.
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
