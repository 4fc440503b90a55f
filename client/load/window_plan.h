// Determines when the measured part of a run begins and ends: after a time or a number of requests,
// whichever comes first.
#pragma once

#include <chrono>
#include <cstdint>

#include "client/load/load_options.h"
#include "client/load/measured_window.h"
#include "client/load/pacer.h"

namespace attention {

/// The window of a closed loop that starts now. It may end as answers come. For one thread.
class ClosedWindow {
 public:
  using Time = MeasuredWindow::Time;

  /// Borrows the options.
  explicit ClosedWindow(const LoadOptions& options);

  MeasuredWindow& window() { return window_; }

  /// Notes that a request ended; `num_measured` counted requests have ended so far.
  void Advance(Time now, int64_t num_measured);
  /// Ends the window at `now`; before it began, it is empty.
  void End(Time now);
  void EndIfRequested(Time now);
  /// Returns whether requests are still to be sent.
  bool IsOpen(Time now) const { return now < window_.end(); }
  /// Returns whether `num_measured` reaches the wanted number of requests; false before the window
  /// begins.
  bool IsEnough(Time now, int64_t num_measured) const;

 private:
  const LoadOptions& options_;
  MeasuredWindow window_;
};

/// The window of an open loop that starts at `start`; it depends only on options and schedule.
struct OpenWindow {
  MeasuredWindow::Time start, end;
  /// Whether it ends because a recorded schedule is through, or the number of requests was sent,
  /// and so waits for the answers.
  bool awaits_answers = false;
};
OpenWindow PlanOpenWindow(const LoadOptions& options, MeasuredWindow::Time start);

}  // namespace attention
