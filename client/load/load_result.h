// What a load run counted.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/load/histogram.h"
#include "client/load/pacer.h"
#include "client/load/protocol.h"

namespace attention {

/// Requests that failed alike.
struct FailureTally {
  /// Of the whole run, warm-up included.
  int64_t count = 0;
  std::string first_text;
  /// From when they were due (open loop) or sent, of those within the window; empty for requests
  /// that were not sent.
  Histogram latency_ns;
};

/// An answer that was kept.
struct LoadSample {
  size_t kind = 0;  // of the RequestMix
  LoadAnswer messages;
};

/// Key of FailureTally for requests that were due while too many were under way.
inline constexpr char kNotSent[] = "NOT_SENT";

struct LoadResult {
  absl::Duration window;

  // OK answers that arrived within the window, which comes after the warm-up.
  int64_t answers = 0;
  int64_t tokens = 0;  // query rows
  int64_t request_bytes = 0;
  int64_t answered_bytes = 0;
  /// The server's own account, summed over as many of these as have one.
  int64_t accounts = 0;
  ServerAccount account;

  // Of OK answers: until the last byte. Closed loop: of those that arrived within the window; open
  // loop: of requests that were due within it, whenever they were answered.

  /// From when the request was due; in a closed loop that is when it was sent.
  Histogram latency_ns;
  /// From when it was really sent; open loop only.
  Histogram service_ns;
  /// Until the first message; streams only.
  Histogram first_message_ns;

  /// By status code, or kNotSent.
  std::map<std::string, FailureTally> failures;
  /// The run ended early because nothing but errors came; closed loop only.
  bool gave_up = false;
  /// CPU time of this process over the window's length: near 1, the client itself was the limit.
  double client_cpu_share = 0.0;
  std::optional<PaceTally> pace;  // open loop only
  std::vector<LoadSample> samples;
};

}  // namespace attention
