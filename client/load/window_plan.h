// When the part of a run that counts begins and ends: by time, by number, or whichever is first.
#pragma once

#include <chrono>
#include <cstdint>

#include "client/load/load_options.h"
#include "client/load/measured_window.h"
#include "client/load/pacer.h"

namespace attention {

/// Of a closed loop that starts now: it begins and ends as answers come. One thread.
class ClosedWindow {
 public:
  using Time = MeasuredWindow::Time;

  /// Borrows the options.
  explicit ClosedWindow(const LoadOptions& options);

  MeasuredWindow& window() { return window_; }

  /// After a request ended: so many have by now, and so many of those count.
  void Advance(Time now, int64_t num_ended, int64_t num_measured);
  void EndIfAsked(Time now);
  /// Whether there is still something to send for.
  bool IsOpen(Time now) const;
  /// Whether so many measured requests are all that are wanted. Not before the window begins.
  bool IsEnough(Time now, int64_t num_measured) const;

 private:
  const LoadOptions& options_;
  MeasuredWindow window_;
  /// Of a warm-up by number: when it has lasted long enough.
  Time earliest_;
  bool has_begun_ = false;
};

/// Of an open loop whose run starts at `start`: of its options and schedule alone.
struct OpenWindow {
  MeasuredWindow::Time start, end;
};
OpenWindow PlanOpenWindow(const LoadOptions& options, MeasuredWindow::Time start);

}  // namespace attention
