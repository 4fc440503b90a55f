// When requests of an open loop are sent: at times that do not depend on how earlier ones fare, as
// users do who know nothing of each other.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <random>

#include "client/load/histogram.h"

namespace attention {

enum class Arrivals {
  kConstant,  // at even distances
  kPoisson,   // after exponentially distributed gaps
};

struct ArrivalOptions {
  double rate_per_s = 1.0;  // > 0
  Arrivals arrivals = Arrivals::kConstant;
  uint64_t seed = 0;  // of kPoisson
};

/// Where time comes from; tests bring their own.
struct PacerClock {
  using Steady = std::chrono::steady_clock;

  std::function<Steady::time_point()> now = Steady::now;
  std::function<void(Steady::time_point)> sleep_until;

  /// This machine's; a thread that sleeps by it wakes as soon as the kernel can.
  static PacerClock Real();
};

/// The times at which requests are due; the same for the same options and start.
class Schedule {
 public:
  Schedule(const ArrivalOptions& options, PacerClock::Steady::time_point start);

  /// When the next request is due. The first is due at the start when arrivals are constant.
  PacerClock::Steady::time_point due() const { return due_; }
  void Advance();

 private:
  double Gap();

  const ArrivalOptions options_;
  const PacerClock::Steady::time_point start_;
  std::mt19937_64 generator_;
  int64_t index_ = 0;
  double since_start_s_ = 0.0;
  PacerClock::Steady::time_point due_;
};

/// The part of a run that counts.
struct PaceWindow {
  PacerClock::Steady::time_point start;
  PacerClock::Steady::time_point end;
};

/// Of the requests that were due within the window.
struct PaceTally {
  int64_t due = 0;
  int64_t not_sent = 0;
  /// From when a request was due until it was sent.
  Histogram lag_ns;
};

/// Calls `send(due)` for each request that is due before the window's end, as soon as it is due.
/// One that could not be sent then is sent as soon as possible: none is left out, and none is put
/// off to keep a distance. `send` returns false when it does not send. Blocks its thread meanwhile.
PaceTally Pace(Schedule schedule, const PacerClock& clock, const PaceWindow& window,
               const std::function<bool(PacerClock::Steady::time_point)>& send);

}  // namespace attention
