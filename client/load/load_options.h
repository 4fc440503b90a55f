// How a load is to be sent.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "client/lib/connection_options.h"
#include "client/load/pacer.h"

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
  absl::Duration warmup;
  absl::Duration duration;
  /// Deadline of each request.
  absl::Duration timeout;
  /// Answers to keep, spread evenly over the duration.
  int num_samples = 0;
  /// Of what is drawn: which request comes next, and when (poisson).
  uint64_t seed = 0;
  std::optional<OpenLoopOptions> open_loop = std::nullopt;
};

}  // namespace attention
