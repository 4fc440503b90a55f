// When requests of an open loop are sent: at times that do not depend on earlier requests, as with
// independent users.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>

#include "absl/time/time.h"
#include "client/load/arrival_trace.h"
#include "client/load/histogram.h"
#include "client/load/measured_window.h"
#include "client/load/time_series.h"

namespace attention {

enum class Arrivals {
  kConstant,  // at even distances
  kPoisson,   // after exponentially distributed gaps
};

/// A rate that changes linearly over time, and then stays constant.
struct Ramp {
  double to_rate_per_s = 1.0;  // > 0
  double start_s = 0.0;        // after the start of the load
  double length_s = 1.0;       // > 0
};

struct ArrivalOptions {
  double rate_per_s = 1.0;  // > 0; the rate before a ramp, or the mean rate of a trace
  Arrivals arrivals = Arrivals::kConstant;
  uint64_t seed = 0;  // of kPoisson
  std::optional<Ramp> ramp = std::nullopt;
  /// A recorded schedule; rate_per_s is then its mean rate, and the other members count nothing.
  std::shared_ptr<const ArrivalTrace> trace = nullptr;
};

/// A clock; tests have their own.
struct PacerClock {
  using Steady = std::chrono::steady_clock;

  std::function<Steady::time_point()> now = Steady::now;
  std::function<void(Steady::time_point)> sleep_until;

  /// Returns the clock of the machine. A thread that sleeps wakes as soon as the kernel allows.
  static PacerClock Real();
};

/// The times at which requests are due; the same for the same options and start.
class Schedule {
 public:
  Schedule(const ArrivalOptions& options, PacerClock::Steady::time_point start);

  /// Returns when the next request is due; the end of time when a trace has no more. The first is
  /// due at the start when arrivals are constant.
  PacerClock::Steady::time_point due() const { return due_; }
  void Advance();

 private:
  double Gap();
  double SecondsUntil(double requests) const;

  const ArrivalOptions options_;
  const PacerClock::Steady::time_point start_;
  std::mt19937_64 generator_;
  int64_t index_ = 0;
  /// The integral of the rate from the start to due(): index_, or for kPoisson a sum of random
  /// gaps.
  double requests_ = 0.0;
  PacerClock::Steady::time_point due_;
};

/// Counts of the requests that were due within the window.
struct PaceTally {
  int64_t due = 0;
  int64_t not_sent = 0;
  /// The time from when a request was due until it was sent.
  Histogram lag_ns;
  /// The due, not_sent and sent of TimeSlice.
  TimeSeries series;
  /// The part of the window in which requests were due.
  absl::Duration span;
};

/// Calls `send(due)` for each request that is due before the window's end, as soon as it is due.
/// One that could not be sent then is sent as soon as possible: none is left out, and none is put
/// off to keep a distance. `send` returns false when it does not send. Blocks its thread meanwhile.
/// If the window is asked to end, it ends at the time at which the next request is due. `slice` is
/// the length of the slices of the tally's series.
PaceTally Pace(Schedule schedule, const PacerClock& clock, MeasuredWindow& window,
               absl::Duration slice,
               const std::function<bool(PacerClock::Steady::time_point)>& send);

}  // namespace attention
