#include "client/load/window_plan.h"

#include <algorithm>

namespace attention {
namespace {

using Time = MeasuredWindow::Time;

/// The length of the window: of one trial, or of all possible trials.
absl::Duration LongestWindow(const LoadOptions& options) {
  return options.stability.has_value() ? options.duration * options.stability->max_trials
                                       : options.duration;
}

Time Later(Time time, absl::Duration duration) {
  return duration < absl::FromChrono(Time::max() - time)
             ? time + absl::ToChronoNanoseconds(duration)
             : Time::max();
}

}  // namespace

ClosedWindow::ClosedWindow(const LoadOptions& options)
    : options_(options), window_(Later(Time::clock::now(), options.warmup), Time::max()) {
  window_.EndAt(Later(window_.start(), LongestWindow(options)));
}

void ClosedWindow::Advance(Time now, int64_t num_measured) {
  if (options_.requests > 0 && num_measured >= options_.requests) {
    window_.EndAt(now);
  }
}

void ClosedWindow::End(Time now) {
  if (now < window_.start()) {
    window_.Move(now, now);
  }
  window_.EndAt(now);
}

void ClosedWindow::EndIfRequested(Time now) {
  if (window_.is_end_requested()) {
    End(now);
  }
}

bool ClosedWindow::IsEnough(Time now, int64_t num_measured) const {
  return options_.requests > 0 && now >= window_.start() && num_measured >= options_.requests;
}

OpenWindow PlanOpenWindow(const LoadOptions& options, Time start) {
  const ArrivalOptions& arrivals = options.open_loop->arrivals;
  Schedule schedule(arrivals, start);
  OpenWindow window;
  window.start = Later(start, options.warmup);
  window.end = Later(window.start, LongestWindow(options));
  if (arrivals.trace != nullptr) {
    const Time after_last = start + arrivals.trace->times.back() + std::chrono::nanoseconds(1);
    window.awaits_answers = after_last <= window.end;
    window.end = std::min(window.end, after_last);
    window.start = std::min(window.start, window.end);
  }
  if (options.requests > 0) {
    while (schedule.due() < window.start) {
      schedule.Advance();
    }
    for (int64_t i = 0; i < options.requests && schedule.due() < window.end; ++i) {
      schedule.Advance();
    }
    if (schedule.due() < window.end) {
      window.awaits_answers = true;
      window.end = schedule.due();
    }
  }
  return window;
}

}  // namespace attention
