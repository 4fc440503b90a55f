// What became of requests: counted, by model too, and logged.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "core/runtime/mutex.h"

namespace attention {

/// A request, or a step of a session, that has ended. Durations in nanoseconds.
struct RequestRecord {
  /// "Attend".
  std::string rpc;
  /// Empty: none was found.
  std::string model;
  int64_t model_version = 0;
  std::string request_id;
  /// Of W3C Trace Context; empty: none.
  std::string traceparent;
  std::string tenant;
  absl::Status status;

  int64_t receive_ns = 0;  // arrival of the call until all of the request was there
  int64_t queue_ns = 0;    // until a batch took it
  int64_t compute_ns = 0;  // until its last row was computed
  int64_t send_ns = 0;     // until the transport had taken all of the answer
  int64_t tokens = 0;
  int64_t batch_id = 0;
  int64_t batch_requests = 0;
  int64_t request_bytes = 0;
};

/// Sums over requests that have ended.
struct RequestCounts {
  int64_t succeeded = 0;
  /// For want of room or time, or because the server drains.
  int64_t refused = 0;
  int64_t failed = 0;
  /// Of those that succeeded.
  int64_t receive_ns = 0;
  int64_t queue_ns = 0;
  int64_t compute_ns = 0;
  int64_t send_ns = 0;
  int64_t tokens = 0;
  /// Batches that answered them: each has its part of the batch it was in.
  double executions = 0;
  /// Of those that did not.
  int64_t unsuccessful_ns = 0;
  /// Milliseconds since the epoch, of the last that succeeded; 0: none.
  int64_t last_ms = 0;
};

/// Which requests have a line in the log.
enum class LoggedRequests { kNone, kFailed, kAll };

/// Thread-safe.
class RequestObserver {
 public:
  explicit RequestObserver(LoggedRequests logged) : logged_(logged) {}

  void OnEnd(const RequestRecord& record);

  LoggedRequests logged() const { return logged_; }
  void set_logged(LoggedRequests logged) { logged_ = logged; }

  RequestCounts counts() const;
  /// By name and version.
  std::map<std::pair<std::string, int64_t>, RequestCounts> counts_by_model() const;

 private:
  /// Whether another line about a failure may be written now; those that may not are counted.
  bool TakeLine() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::atomic<LoggedRequests> logged_;
  mutable Mutex mutex_;
  RequestCounts counts_ ABSL_GUARDED_BY(mutex_);
  std::map<std::pair<std::string, int64_t>, RequestCounts> by_model_ ABSL_GUARDED_BY(mutex_);
  int64_t second_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t lines_ ABSL_GUARDED_BY(mutex_) = 0;     // within that second
  int64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;  // since the last line
};

}  // namespace attention
