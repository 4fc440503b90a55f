// The common part of closed loops of requests and of sessions.
#pragma once

#include <chrono>

#include "client/load/event_queue.h"
#include "client/load/recorder.h"
#include "client/load/window_plan.h"

namespace attention {

/// A fixed number of lanes, which one thread drives until none has a call in flight.
template <typename AnyLane>
class ClosedLoop {
 public:
  using Clock = std::chrono::steady_clock;

  virtual ~ClosedLoop() = default;

  LoadResult Run() {
    StartAll();
    while (in_flight_ > 0) {
      events_.Next([this](void* tag, bool ok) { Take(*static_cast<AnyLane*>(tag), ok); });
      const Clock::time_point now = Clock::now();
      recorder_.Watch(now, in_flight_);
      window_.EndIfRequested(now);
    }
    events_.ShutDown();
    LoadResult result = recorder_.Finish();
    result.gave_up = gave_up_;
    Complete(result);
    return result;
  }

 protected:
  /// Borrows both.
  ClosedLoop(const LoadOptions& options, const LoadControl& control)
      : window_(options),
        recorder_(options, control, window_.window()),
        samples_(options, window_.window()) {}

  /// Starts as many lanes as are wanted, each counted in `in_flight_`.
  virtual void StartAll() = 0;
  /// Takes an event of a lane, and starts it again unless the load is over.
  virtual void Take(AnyLane& lane, bool ok) = 0;

  /// Adds to the result what the recorder does not know.
  virtual void Complete(LoadResult& /*result*/) {}

  /// Notes that an answer or a failure came.
  void Advance(Clock::time_point now) {
    window_.Advance(now, recorder_.num_measured());
    if (!gave_up_ && recorder_.IsHopeless(now)) {
      gave_up_ = true;
      window_.End(now);
    }
  }
  bool IsOver(Clock::time_point now) const { return gave_up_ || !window_.IsOpen(now); }

  ClosedWindow window_;
  Recorder recorder_;
  SampleSchedule samples_;
  EventQueue events_;
  int64_t in_flight_ = 0;

 private:
  bool gave_up_ = false;
};

}  // namespace attention
