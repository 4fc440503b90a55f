// The counts of a load.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/load/call_record.h"
#include "client/load/histogram.h"
#include "client/load/pacer.h"
#include "client/load/protocol.h"
#include "client/load/time_series.h"

namespace attention {

/// The requests that failed with one status code.
struct FailureTally {
  /// The number in the whole run, warm-up included.
  int64_t count = 0;
  std::string first_text;
  /// The number whose time, from when the request was due or sent, touches the window: also of
  /// those that end after it, as calls that hang do. In an open loop those that were due in it,
  /// also of kNotSent.
  int64_t in_window = 0;
  /// Latencies of failures within the window, from when the request was due (open loop) or sent;
  /// empty for requests that were not sent.
  Histogram latency_ns;
};

/// An answer that was kept.
struct LoadSample {
  /// The kind of request in the RequestMix; in a session 0 for the prompt, and from 1 on for the
  /// steps.
  size_t kind = 0;
  LoadAnswer messages;
};

using Failures = std::map<std::string, FailureTally>;

/// The key of Failures for requests that were due while too many were in flight, and for sessions
/// that were not opened before the load ended.
inline constexpr char kNotSent[] = "NOT_SENT";

/// The phases of the service time of answers, named as the server names them: the first three as it
/// measured them, the last by the client's clock.
struct LoadPhases {
  /// The time from the arrival of the call until all of the request was there.
  Histogram receive_ns;
  /// The time from then until the request joined a batch.
  Histogram queue_ns;
  /// The time from then until its last row was computed (Summary.compute_ns).
  Histogram compute_ns;
  /// The rest of the service time: encoding and sending the answer, and the way there and back.
  Histogram return_ns;
};

/// The result of a load. For sessions, `answers` and latencies are those of steps.
struct LoadResult {
  /// When the window began, and how long it was.
  absl::Time started;
  absl::Duration window;

  // OK answers that arrived within the window, which comes after the warm-up. That of a schedule
  // that is through, or of a number of requests, ends with the last of its answers.
  int64_t answers = 0;
  int64_t tokens = 0;  // query rows
  int64_t request_bytes = 0;
  int64_t answered_bytes = 0;
  /// Prompts of sessions that were answered, and their tokens.
  int64_t prefills = 0;
  int64_t prefill_tokens = 0;
  /// The tokens of these answers and prompts that the server had in its prefix cache.
  int64_t cached_tokens = 0;
  /// The number of answers with timings of the server.
  int64_t accounts = 0;
  int64_t batch_requests = 0;  // sum over these answers
  LoadPhases phases;

  // Times of OK answers until the last byte. Closed loop: answers that arrived within the window;
  // open loop: answers to requests that were due within it, whenever they arrived.

  /// The time since the request was due; in a closed loop that is when it was sent.
  Histogram latency_ns;
  /// The time since the request was really sent; open loop only.
  Histogram service_ns;
  /// The time until the first message; streams only. For sessions: from the opening until the
  /// prompt was answered.
  Histogram first_message_ns;
  /// The time from each message of a stream to the next.
  Histogram message_gap_ns;
  /// The service time divided by the tokens, of streams and of steps of sessions.
  Histogram token_ns;

  /// The times, since they were due or sent, of the calls that were in flight when the window
  /// ended, until each was answered or failed; when the last request was due, if the window waits
  /// for answers. For sessions: steps.
  Histogram unfinished_ns;

  /// Of `answers` those of each server, by its address; empty for sessions.
  std::map<std::string, int64_t> servers;
  /// The failures by status code, or kNotSent. For sessions: failed sessions.
  Failures failures;
  /// The run ended early because nothing but errors came; closed loop only.
  bool gave_up = false;
  /// The run was ended from outside.
  bool was_stopped = false;
  /// CPU time of this process divided by the length of the window. Near 1, the client itself was
  /// the limit.
  double client_cpu_share = 0.0;
  /// The share of the window in which the thread that takes the answers waited for a CPU.
  double client_wait_share = 0.0;
  std::optional<PaceTally> pace;  // open loop only
  TimeSeries series;
  std::vector<LoadSample> samples;
  /// All calls that ended, warm-up included, in the order in which they ended; empty unless
  /// LoadOptions::keeps_records. Requests that were not sent have none.
  std::vector<CallRecord> records;
};

/// Returns the number of failures in the whole run.
int64_t NumFailures(const Failures& failures);
/// Returns the sum of FailureTally::in_window.
int64_t NumFailuresInWindow(const Failures& failures);

inline double Milliseconds(double nanoseconds) { return nanoseconds / 1e6; }

/// Returns `part` / `whole`; 0 if `whole` is 0.
inline double Share(double part, double whole) { return whole == 0.0 ? 0.0 : part / whole; }

/// Rates over the window, and means over its answers; 0 for an empty window.
struct LoadRates {
  double requests_per_s = 0.0;  // OK answers
  double tokens_per_s = 0.0;
  double gigabytes_per_s = 0.0;  // requests and answers, 1e9 bytes
  double prefill_tokens_per_s = 0.0;
  double requests_per_batch = 0.0;
  // The next two are of an open loop.
  double offered_per_s = 0.0;  // due
  double sent_per_s = 0.0;
};
LoadRates RatesOf(const LoadResult& result);

}  // namespace attention
