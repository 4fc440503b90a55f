// Traces of requests, sent to a collector beside serving.
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
  /// Of a collector that speaks OTLP/HTTP; spans go to /v1/traces below it.
  std::string endpoint;
  /// A file of headers to send, read for each batch; empty: none.
  std::string header_file = {};
  /// Of requests that come without a trace: the share that begins one, 0 to 1. Others are as their
  /// trace says.
  double sample_ratio = 1;
  /// Of the server program.
  std::string version = {};
};

/// Counts of requests since the start.
struct TraceStatistics {
  int64_t exported = 0;
  /// Too many waited, or the collector would not have them.
  int64_t dropped = 0;
};

/// One thread sends what has ended, in batches. Whoever serves never waits for it: what waits is
/// bounded, and the newest is dropped when there is no room. A batch that a collector cannot take
/// now is tried again for kMaxRetryTime, with growing pauses or those that it asks for.
/// Thread-safe.
class SpanExporter {
 public:
  static constexpr size_t kMaxWaiting = 4096;  // requests
  static constexpr size_t kMaxBatch = 256;
  static constexpr absl::Duration kMaxDelay = absl::Seconds(1);
  static constexpr absl::Duration kMaxRetryTime = absl::Seconds(60);

  /// INVALID_ARGUMENT for an endpoint or a ratio that cannot be.
  static absl::StatusOr<std::unique_ptr<SpanExporter>> Create(const SpanExporterOptions& options);
  /// Finishes.
  ~SpanExporter();

  /// Gives the request a span when its trace is sampled, and a trace when it has none and this one
  /// is; then queues it. REQUIRES: the record is complete.
  void Trace(RequestRecord& record);

  /// Tries once to send what waits, for at most kTimeAtEnd. What comes later is dropped.
  void Finish();
  static constexpr absl::Duration kTimeAtEnd = absl::Seconds(2);

  TraceStatistics statistics() const;

 private:
  SpanExporter(const SpanExporterOptions& options, std::unique_ptr<HttpPoster> poster);
  void Run();
  /// Waits until there is a batch, or time to send a smaller one; empty at the end.
  std::vector<TracedRequest> TakeBatch();
  /// How many of so many requests, `body`, the collector has in the end: of spans that it rejects,
  /// each counts as a request.
  int64_t Send(const std::string& body, int64_t requests);
  /// Once for as long as it goes on.
  void TellOfFailure(const std::string& why);
  absl::StatusOr<HttpPoster::Answer> Post(const std::string& body);
  /// False when the end came first.
  bool Sleep(absl::Duration duration);

  const SpanExporterOptions options_;
  const std::unique_ptr<HttpPoster> poster_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<TracedRequest> waiting_ ABSL_GUARDED_BY(mutex_);
  TraceStatistics statistics_ ABSL_GUARDED_BY(mutex_);
  bool is_ending_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_failing_ = false;  // the thread's own: it has been logged
  std::thread thread_;
};

}  // namespace attention
