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
#include "client/load/time_series.h"

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
  /// Of the RequestMix; of a session 0 for the prompt and from 1 on for its steps.
  size_t kind = 0;
  LoadAnswer messages;
};

using Failures = std::map<std::string, FailureTally>;

/// Key of Failures for requests that were due while too many were under way.
inline constexpr char kNotSent[] = "NOT_SENT";

/// Where the time of an answer went, by the server's own account and the client's clock. Together
/// they are the service time, but for answers whose account does not add up to it.
struct LoadPhases {
  /// From the arrival of the call until all of the request was there.
  Histogram send_ns;
  /// Until a batch took it.
  Histogram queue_ns;
  Histogram compute_ns;
  /// The rest: encoding the answer, and the way there and back.
  Histogram receive_ns;
};

/// Of sessions that decode, an answer is that to a step, and its latency that of the step.
struct LoadResult {
  /// When the window began, and how long it was.
  absl::Time started;
  absl::Duration window;

  // OK answers that arrived within the window, which comes after the warm-up.
  int64_t answers = 0;
  int64_t tokens = 0;  // query rows
  int64_t request_bytes = 0;
  int64_t answered_bytes = 0;
  /// Prompts of sessions that were answered, and their tokens.
  int64_t prefills = 0;
  int64_t prefill_tokens = 0;
  /// The server's own account: of as many answers as have one.
  int64_t accounts = 0;
  int64_t batch_requests = 0;  // summed
  LoadPhases phases;

  // Of OK answers: until the last byte. Closed loop: of those that arrived within the window; open
  // loop: of requests that were due within it, whenever they were answered.

  /// From when the request was due; in a closed loop that is when it was sent.
  Histogram latency_ns;
  /// From when it was really sent; open loop only.
  Histogram service_ns;
  /// Until the first message; streams only. Of sessions: from their beginning until the prompt was
  /// answered.
  Histogram first_message_ns;
  /// From each message of a stream to the next.
  Histogram message_gap_ns;
  /// Service time over tokens; streams, and steps of sessions.
  Histogram token_ns;

  /// By status code, or kNotSent. Of sessions: those that failed.
  Failures failures;
  /// The run ended early because nothing but errors came; closed loop only.
  bool gave_up = false;
  /// The run was ended from outside.
  bool was_stopped = false;
  /// CPU time of this process over the window's length: near 1, the client itself was the limit.
  double client_cpu_share = 0.0;
  /// Of the window: how long the thread that takes the answers wanted to run but had no CPU.
  double client_wait_share = 0.0;
  std::optional<PaceTally> pace;  // open loop only
  TimeSeries series;
  std::vector<LoadSample> samples;
};

/// Of the whole run.
int64_t NumFailures(const Failures& failures);

inline double Milliseconds(double nanoseconds) { return nanoseconds / 1e6; }

/// 0 when there is nothing to divide by.
inline double Share(double part, double whole) { return whole == 0.0 ? 0.0 : part / whole; }

/// Over the window, or means over the answers; 0 of an empty window.
struct LoadRates {
  double requests_per_s = 0.0;  // OK answers
  double tokens_per_s = 0.0;
  double gigabytes_per_s = 0.0;  // requests and answers, 1e9 bytes
  double prefill_tokens_per_s = 0.0;
  double requests_per_batch = 0.0;
  // Of an open loop.
  double offered_per_s = 0.0;  // due
  double sent_per_s = 0.0;
};
LoadRates RatesOf(const LoadResult& result);

}  // namespace attention
