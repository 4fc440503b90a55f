// A closed loop: a fixed number of requests is always under way, and each answer starts the next.
// It therefore slows down with the server: its latencies say nothing about users who arrive
// whatever the server does.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/load/histogram.h"

namespace attention {

/// One encoded request, sent over and over; its bytes are shared by all calls.
struct LoadRequest {
  std::string method;
  bool is_streaming = false;
  grpc::ByteBuffer bytes;
};

struct LoadOptions {
  std::string server;
  int concurrency = 1;
  int connections = 1;
  absl::Duration warmup;
  absl::Duration duration;
  /// Deadline of each request.
  absl::Duration timeout;
  /// Answers to keep, spread evenly over the duration.
  int num_samples = 0;
};

/// The messages of one answer.
using LoadAnswer = std::vector<grpc::ByteBuffer>;

struct LoadResult {
  /// OK answers that arrived within the measured window (after the warm-up), from sending to the
  /// last byte.
  Histogram latency_ns;
  /// Until the first message; streams only.
  Histogram first_message_ns;
  int64_t answered_bytes = 0;
  absl::Duration window;
  /// The server's own account of these answers, summed.
  int64_t queue_ns = 0;
  int64_t compute_ns = 0;
  int64_t batch_requests = 0;

  /// Failed requests of the whole run, warm-up included: by status code, and the text of the first
  /// of each.
  std::map<std::string, int64_t> errors;
  std::map<std::string, std::string> error_texts;
  /// The run ended early because nothing but errors came.
  bool gave_up = false;
  /// CPU time of this process over the window's length: near 1, the client itself was the limit.
  double client_cpu_share = 0.0;
  std::vector<LoadAnswer> samples;
};

/// Runs on the calling thread, which drives all calls through one completion queue; returns when
/// every call has ended. REQUIRES: concurrency, connections > 0; positive durations.
LoadResult RunClosedLoop(const LoadRequest& request, const LoadOptions& options);

}  // namespace attention
