// Counts of finished requests.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/runtime/mutex.h"
#include "server/observability/request_record.h"
#include "server/scheduling/bucket_counts.h"
#include "server/scheduling/refusal.h"

namespace attention {

/// Sums over finished requests. Durations in nanoseconds.
struct RequestCounts {
  int64_t succeeded = 0;
  /// Refused for lack of room or time, or because the server drains.
  int64_t refused = 0;
  int64_t failed = 0;
  /// Sums over the succeeded requests.
  int64_t receive_ns = 0;
  int64_t queue_ns = 0;
  int64_t compute_ns = 0;
  int64_t send_ns = 0;
  int64_t tokens = 0;
  int64_t cached_tokens = 0;
  /// The time from arrival until the transport had taken the whole answer.
  BucketCounts latency;
  /// The number of batches. Each request counts for its share of the batch it was in.
  double executions = 0;
  /// The sum of the latencies of the requests that did not succeed.
  int64_t unsuccessful_ns = 0;
  /// The time of the last success, in milliseconds since the epoch; 0: none.
  int64_t last_success_unix_ms = 0;
  /// The bytes of all requests.
  int64_t received_bytes = 0;
};

/// The requests of one rpc and model with one outcome.
struct RequestSeries {
  /// The counts; `latency` includes all outcomes.
  RequestCounts counts;
  /// Durations of the requests that reached the phase.
  BucketCounts queue;
  BucketCounts compute;
  BucketCounts first_block;
  /// Durations of the succeeded requests.
  BucketCounts send;
};

/// Counts requests. Thread-safe. Counting takes a lock that is rarely contended, a look-up and a
/// dozen additions: tests/bench/RESULTS.md (The server) has the time.
class RequestCounter {
 public:
  void Count(const RequestRecord& record);

  RequestCounts total() const;
  /// Returns the counts by name and version.
  std::map<std::pair<std::string, int64_t>, RequestCounts> by_model() const;

  /// The labels of the metrics: rpc, model and code. Once there are kMaxSeries series,
  /// further ones of models share the label kOtherModels.
  using Key = std::tuple<std::string_view, std::string, absl::StatusCode>;
  std::map<Key, RequestSeries> series() const;
  /// Returns the number of refused requests by reason.
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
