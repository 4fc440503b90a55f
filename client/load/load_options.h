// How a load is to be sent.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>

#include "absl/time/time.h"
#include "client/lib/connection_options.h"
#include "client/load/pacer.h"
#include "client/load/stability.h"

namespace attention {

/// Options of an open loop, which sends requests when they are due, however many are in flight.
struct OpenLoopOptions {
  ArrivalOptions arrivals;
  /// A request that is due while so many are in flight is not sent, and counts as an error.
  int max_in_flight = 10000;
};

struct LoadOptions {
  ConnectionOptions connection = {};
  /// The number of requests in flight at any time, without `open_loop`.
  int concurrency = 1;
  int connections = 1;
  /// The warm-up before the window.
  absl::Duration warmup;
  /// The window ends after this time, or after so many requests (0: any number), whichever is
  /// first. Infinite only with a number.
  absl::Duration duration;
  int64_t requests = 0;
  /// The deadline of each request, from when it is sent.
  absl::Duration timeout;
  /// A closed loop ends early when nothing but failures came for this long, and more than
  /// kMaxFailuresInARow (recorder.h) of them.
  absl::Duration patience = absl::Seconds(5);
  /// The number of answers to keep, spread evenly over the window's first `duration`, or over
  /// its number of requests.
  int num_samples = 0;
  /// Whether the result has a record of each call.
  bool keeps_records = false;
  /// The seed of what is random: which request comes next, and when (poisson).
  uint64_t seed = 0;
  std::optional<OpenLoopOptions> open_loop = std::nullopt;
  /// A rule makes `duration` that of each trial: trials follow each other without a pause until
  /// they are stable, or there were `max_trials`; together they are the window.
  std::optional<StabilityRule> stability = std::nullopt;
};

/// The progress of a load.
struct LoadProgress {
  absl::Duration elapsed;  // since the window began; negative: before
  /// OK answers a second since the last report, and the 99th percentile of their latencies.
  double answers_per_s = 0.0;
  double p99_ms = 0.0;
  /// Errors of the whole run, and requests in flight now.
  int64_t errors = 0;
  int64_t in_flight = 0;
};

/// The means to watch a load and to stop it. Both members are optional.
struct LoadControl {
  /// A flag that stops the load: once it is true, nothing more is sent, and the window ends. Any
  /// thread, or a signal, may set it.
  const std::atomic<bool>* stop = nullptr;
  /// The thread that takes the answers calls this a few times a second.
  std::function<void(const LoadProgress&)> on_progress = nullptr;
};

}  // namespace attention
