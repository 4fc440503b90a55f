#include "client/load/pacer.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "client/load/length_mix.h"
#include "core/tensor/seeded.h"

namespace attention {
namespace {

using Time = PacerClock::Steady::time_point;

/// The interval at which a sleeping pacer checks whether the window is asked to end.
constexpr std::chrono::milliseconds kCheckInterval{100};

/// False when the window is asked to end first.
bool SleepUntil(Time due, const PacerClock& clock, const MeasuredWindow& window) {
  for (Time now = clock.now(); now < due; now = clock.now()) {
    if (window.is_end_requested()) {
      return false;
    }
    clock.sleep_until(std::min(due, now + kCheckInterval));
  }
  return !window.is_end_requested();
}

void Count(Time due, Time now, bool is_sent, const MeasuredWindow& window, PaceTally& tally) {
  ++tally.due;
  TimeSlice& slice = tally.series.At(absl::FromChrono(due - window.start()));
  ++slice.due;
  if (!is_sent) {
    ++tally.not_sent;
    ++slice.not_sent;
    return;
  }
  tally.lag_ns.Record(std::chrono::nanoseconds(now - due).count());
  if (window.Contains(now)) {
    ++tally.series.At(absl::FromChrono(now - window.start())).sent;
  }
}

}  // namespace

PacerClock PacerClock::Real() {
  return {.now = Steady::now, .sleep_until = [](Steady::time_point until) {
            // The timer slack of this thread: by default a sleep may end 50 us late.
            static thread_local const int slack_is_set = prctl(PR_SET_TIMERSLACK, 1);
            (void)slack_is_set;
            std::this_thread::sleep_until(until);
          }};
}

Schedule::Schedule(const ArrivalOptions& options, Time start)
    : options_(options), start_(start), generator_(SeedOf(options.seed, "arrivals")), due_(start) {
  if (options_.trace != nullptr || options_.arrivals == Arrivals::kPoisson) {
    index_ = -1;
    Advance();
  }
}

void Schedule::Advance() {
  ++index_;
  if (options_.trace != nullptr) {
    due_ = index_ < std::ssize(options_.trace->times) ? start_ + options_.trace->times[index_]
                                                      : Time::max();
    return;
  }
  requests_ =
      options_.arrivals == Arrivals::kConstant ? static_cast<double>(index_) : requests_ + Gap();
  due_ = start_ + std::chrono::nanoseconds(std::llround(SecondsUntil(requests_) * 1e9));
}

double Schedule::Gap() { return -std::log1p(-DrawUniform(generator_)); }

/// The time at which the integral of the rate reaches `requests`.
double Schedule::SecondsUntil(double requests) const {
  const double from = options_.rate_per_s;
  if (!options_.ramp.has_value() || requests <= from * options_.ramp->start_s) {
    return requests / from;
  }
  const auto& [to, start_s, length_s] = *options_.ramp;
  const double within = requests - from * start_s;
  const double of_ramp = (from + to) / 2.0 * length_s;
  if (within >= of_ramp) {
    return start_s + length_s + (within - of_ramp) / to;
  }
  // from * t + growth / 2 * t^2 = within, in the form that is stable for a growth near 0.
  const double growth = (to - from) / length_s;
  return start_s + 2.0 * within / (from + std::sqrt(from * from + 2.0 * growth * within));
}

PaceTally Pace(Schedule schedule, const PacerClock& clock, MeasuredWindow& window,
               absl::Duration slice, const std::function<bool(Time)>& send) {
  PaceTally tally;
  tally.series = TimeSeries(slice);
  for (; schedule.due() < window.end(); schedule.Advance()) {
    if (!SleepUntil(schedule.due(), clock, window)) {
      window.EndAt(schedule.due());
      break;
    }
    const Time now = clock.now();
    const bool is_sent = send(schedule.due());
    if (schedule.due() >= window.start()) {
      Count(schedule.due(), now, is_sent, window, tally);
    }
  }
  tally.span = absl::FromChrono(window.length());
  return tally;
}

}  // namespace attention
