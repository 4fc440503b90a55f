// A finished request, or a finished step of a session.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/observability/trace_context.h"

namespace attention {

/// The record. Durations in nanoseconds.
struct RequestRecord {
  /// "Attend": one of few literals.
  std::string_view rpc;
  /// A model that serves or served when the request came; empty: attention without a model, or no
  /// model was found.
  std::string model;
  int64_t model_version = 0;
  std::string request_id;
  /// The trace of the caller; without ids if there is none.
  TraceContext trace;
  std::string tenant;
  /// The caller's address: "ipv4:10.0.0.7:51234".
  std::string peer;
  absl::Status status;

  /// The arrival of the call; for a request within a call, of its message.
  std::chrono::steady_clock::time_point arrival;
  int64_t total_ns = 0;    // from arrival until the transport had taken the whole answer
  int64_t receive_ns = 0;  // from the arrival of the call until the whole request was received
  int64_t queue_ns = 0;    // from then until a batch took it
  int64_t compute_ns = 0;  // from then until its last row was computed (BatchStats)
  int64_t send_ns = 0;     // from then until the transport had taken the whole answer
  /// Streams only: from arrival until the first row block was being sent.
  int64_t first_block_ns = 0;
  int64_t tokens = 0;         // the query rows that were computed
  int64_t cached_tokens = 0;  // those that were not, since the prefix cache had them
  int64_t batch_id = 0;       // 0: it was in no batch
  int64_t batch_requests = 0;
  int64_t request_bytes = 0;
};

}  // namespace attention
