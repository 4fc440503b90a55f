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

/// Requests are sent when they are due, whatever is under way.
struct OpenLoopOptions {
  ArrivalOptions arrivals;
  /// A request that is due while so many are under way is not sent, and counts as an error.
  int max_in_flight = 10000;
};

struct LoadOptions {
  ConnectionOptions connection = {};
  /// Requests under way at any time; without `open_loop`.
  int concurrency = 1;
  int connections = 1;
  /// What comes before the window: so long, or until so many requests were answered (open loop:
  /// due), whichever is later.
  absl::Duration warmup;
  int64_t warmup_requests = 0;
  /// The window ends after so long, or after so many requests (0: any number), whichever is first.
  /// Infinite only with a number.
  absl::Duration duration;
  int64_t requests = 0;
  /// Deadline of each request.
  absl::Duration timeout;
  /// Answers to keep, spread evenly over the window's first `duration`.
  int num_samples = 0;
  /// Of what is drawn: which request comes next, and when (poisson).
  uint64_t seed = 0;
  std::optional<OpenLoopOptions> open_loop = std::nullopt;
  /// With it `duration` is that of each trial: trials follow each other without a pause until they
  /// are stable, or there were `max_trials`; together they are the window.
  std::optional<StabilityRule> stability = std::nullopt;
};

/// What a load has come to so far, for those who watch it.
struct LoadProgress {
  absl::Duration elapsed;  // since the window began; negative: before
  /// Since the last time: OK answers a second, and the 99th percentile of their latencies.
  double answers_per_s = 0.0;
  double p99_ms = 0.0;
  /// Of the whole run.
  int64_t errors = 0;
  int64_t in_flight = 0;
};

/// How a load is watched and ended from outside. Both may be left out.
struct LoadControl {
  /// Once true, nothing more is sent, and the window ends there. Set by any thread, or a signal.
  const std::atomic<bool>* stop = nullptr;
  /// Called a few times a second by the thread that takes the answers.
  std::function<void(const LoadProgress&)> on_progress = nullptr;
};

}  // namespace attention
