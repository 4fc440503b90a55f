// Sends traces of requests to a collector, in the background.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "core/runtime/mutex.h"
#include "server/observability/http_poster.h"
#include "server/observability/otlp_json.h"

namespace attention {

struct SpanExporterOptions {
  /// The URL of a collector that supports OTLP/HTTP; spans go to /v1/traces below it.
  std::string endpoint;
  /// The file of headers, read for each batch; empty: none.
  std::string header_file = {};
  /// The share of requests without a trace for which the server starts one, 0 to 1. Requests with a
  /// trace are sampled as their trace says.
  double sample_ratio = 1;
  /// The version of the server.
  std::string version = {};
};

/// Counts of requests since the start, each with all its spans. A span that the collector rejects
/// counts as a request that was dropped.
struct TraceStatistics {
  int64_t exported = 0;
  /// Those that were dropped because too many waited, or because the collector did not accept them.
  int64_t dropped = 0;
};

/// One thread sends finished requests in batches. No other thread waits for it: the number of
/// waiting requests is bounded, and the newest is dropped when there is no room. A batch that the
/// collector cannot accept now is retried for kMaxRetryTime, with growing pauses or with those that
/// the collector asks for. Thread-safe.
class SpanExporter {
 public:
  static constexpr size_t kMaxWaiting = 4096;  // requests
  static constexpr size_t kMaxBatch = 256;
  static constexpr absl::Duration kMaxDelay = absl::Seconds(1);
  static constexpr absl::Duration kMaxRetryTime = absl::Seconds(60);

  /// Starts an exporter. INVALID_ARGUMENT for an invalid endpoint or ratio.
  static absl::StatusOr<std::unique_ptr<SpanExporter>> Create(const SpanExporterOptions& options);
  /// Calls Finish.
  ~SpanExporter();

  /// Gives the request a span if its trace is sampled; starts a trace if it has none and the
  /// sampling chooses it; then queues the request. REQUIRES: the record is complete.
  void Trace(RequestRecord& record);

  /// Tries once to send the waiting requests, for at most kTimeAtEnd. Later requests are dropped.
  void Finish();
  static constexpr absl::Duration kTimeAtEnd = absl::Seconds(2);

  TraceStatistics statistics() const;

 private:
  SpanExporter(const SpanExporterOptions& options, std::unique_ptr<HttpPoster> poster);
  void Run();
  /// Waits until a batch is full, or until it is time to send a smaller one, and moves it to
  /// batch_. Returns false at the end, when there is none. Does not allocate.
  bool TakeBatch();
  /// Sends `body`, which holds the spans of `requests` requests, and returns how many of them the
  /// collector accepted. Each rejected span counts as a request.
  int64_t Send(const std::string& body, int64_t requests);
  /// Logs the failure once, until a batch succeeds.
  void LogFailureOnce(const std::string& why);
  absl::StatusOr<HttpPoster::Answer> Post(const std::string& body);
  /// Returns false when Finish came first.
  bool Sleep(absl::Duration duration);

  const SpanExporterOptions options_;
  const std::unique_ptr<HttpPoster> poster_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<TracedRequest> waiting_ ABSL_GUARDED_BY(mutex_);
  TraceStatistics statistics_ ABSL_GUARDED_BY(mutex_);
  bool is_ending_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_ended_ ABSL_GUARDED_BY(mutex_) = false;
  // Used by the thread only.
  std::vector<TracedRequest> batch_;
  bool is_failing_ = false;  // whether a failure was logged
  std::thread thread_;
};

}  // namespace attention
