// Requests that have ended, counted.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/runtime/mutex.h"
#include "server/observability/bucket_counts.h"
#include "server/observability/request_record.h"
#include "server/scheduling/refusal.h"

namespace attention {

/// Sums over requests that have ended. Durations in nanoseconds.
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
  /// From arrival until the transport had taken all of the answer.
  BucketCounts latency;
  /// Batches that answered them: each has its part of the batch it was in.
  double executions = 0;
  /// Of those that did not.
  int64_t unsuccessful_ns = 0;
  /// Milliseconds since the epoch, of the last that succeeded; 0: none.
  int64_t last_ms = 0;
  /// Of all.
  int64_t received_bytes = 0;
};

/// Requests of one rpc and model with one outcome.
struct RequestSeries {
  /// `latency` is of all of them, whatever the outcome.
  RequestCounts counts;
  /// Of those that came so far.
  BucketCounts queue;
  BucketCounts compute;
  BucketCounts first_block;
  /// Of those that succeeded.
  BucketCounts send;
};

/// Thread-safe. To count a request is to take a lock that hardly anybody else wants, to find its
/// series, and a dozen additions: tests/bench/README.md has the time it takes.
class RequestCounter {
 public:
  void Count(const RequestRecord& record);

  RequestCounts total() const;
  /// By name and version.
  std::map<std::pair<std::string, int64_t>, RequestCounts> by_model() const;

  /// What metrics are told apart by: rpc, model and code. At most kMaxSeries versions of models
  /// have series of their own; what comes beyond those is under the model kOtherModels.
  using Key = std::tuple<std::string_view, std::string, absl::StatusCode>;
  std::map<Key, RequestSeries> series() const;
  /// Refused requests, by reason.
  std::array<int64_t, kNumRefusalReasons> refused() const;

  static constexpr size_t kMaxSeries = 4096;
  static constexpr char kOtherModels[] = "(others)";

 private:
  using FullKey = std::tuple<std::string, int64_t, std::string_view, absl::StatusCode>;
  RequestSeries& SeriesOf(const RequestRecord& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  std::map<FullKey, RequestSeries, std::less<>> series_ ABSL_GUARDED_BY(mutex_);
  std::array<int64_t, kNumRefusalReasons> refused_ ABSL_GUARDED_BY(mutex_) = {};
};

}  // namespace attention
