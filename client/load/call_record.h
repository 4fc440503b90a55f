// The record of one call of a load.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace attention {

/// A request, or a prompt or step of a session, that was answered or failed. Times in nanoseconds.
struct CallRecord {
  /// The prompt of a session; only if there are sessions.
  bool is_prompt = false;
  absl::StatusCode code = absl::StatusCode::kOk;
  /// Whether its latency counts in the result: it is of the window.
  bool is_measured = false;
  int64_t due_ns = 0;            // since the window began; negative: in the warm-up
  int64_t lag_ns = 0;            // from when it was due until it was sent
  int64_t latency_ns = 0;        // from when it was due until it ended
  int64_t first_message_ns = 0;  // from when it was due until the first message of a stream; or 0
  int64_t tokens = 0;            // query rows of the answer
  int64_t request_bytes = 0;
  int64_t answered_bytes = 0;

  // The server's measurements; zeros if the answer has none.
  int64_t receive_ns = 0;
  int64_t queue_ns = 0;
  int64_t compute_ns = 0;
  uint64_t batch_id = 0;
  int64_t batch_requests = 0;
};

}  // namespace attention
