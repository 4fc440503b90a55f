// A request, or a step of a session, that has ended.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/observability/trace_context.h"

namespace attention {

/// Durations in nanoseconds.
struct RequestRecord {
  /// "Attend": a literal, one of few.
  std::string_view rpc;
  /// One that is served, or was when the request came; empty: attention without a model, or none
  /// was found.
  std::string model;
  int64_t model_version = 0;
  std::string request_id;
  /// The caller's; no ids without one.
  TraceContext trace;
  std::string tenant;
  /// Of a request that failed: "ipv4:10.0.0.7:51234".
  std::string peer;
  absl::Status status;

  /// Of the call; of a request within a call, of its message.
  std::chrono::steady_clock::time_point arrival;
  int64_t total_ns = 0;        // arrival until the transport had taken all of the answer
  int64_t receive_ns = 0;      // arrival of the call until all of the request was there
  int64_t queue_ns = 0;        // until a batch took it
  int64_t compute_ns = 0;      // until its last row was computed
  int64_t send_ns = 0;         // until the transport had taken all of the answer
  int64_t first_block_ns = 0;  // of a stream: arrival until its first block was on its way
  int64_t tokens = 0;
  int64_t batch_id = 0;  // 0: it was in none
  int64_t batch_requests = 0;
  int64_t request_bytes = 0;
};

}  // namespace attention
