#include "client/load/pacer.h"

#include <sys/prctl.h>

#include <cmath>
#include <thread>

#include "client/load/uniform.h"

namespace attention {

PacerClock PacerClock::Real() {
  return {.now = Steady::now, .sleep_until = [](Steady::time_point until) {
            // Of this thread alone, and costs nothing: by default a sleep may end 50 us late.
            static thread_local const int slack_is_set = prctl(PR_SET_TIMERSLACK, 1);
            (void)slack_is_set;
            std::this_thread::sleep_until(until);
          }};
}

Schedule::Schedule(const ArrivalOptions& options, PacerClock::Steady::time_point start)
    : options_(options), start_(start), generator_(options.seed), due_(start) {
  if (options_.arrivals == Arrivals::kPoisson) {
    Advance();
  }
}

void Schedule::Advance() {
  ++index_;
  since_start_s_ = options_.arrivals == Arrivals::kConstant
                       ? static_cast<double>(index_) / options_.rate_per_s
                       : since_start_s_ + Gap();
  due_ = start_ + std::chrono::nanoseconds(std::llround(since_start_s_ * 1e9));
}

double Schedule::Gap() { return -std::log1p(-DrawUniform(generator_)) / options_.rate_per_s; }

PaceTally Pace(Schedule schedule, const PacerClock& clock, const PaceWindow& window,
               const std::function<bool(PacerClock::Steady::time_point)>& send) {
  PaceTally tally;
  for (; schedule.due() < window.end; schedule.Advance()) {
    if (clock.now() < schedule.due()) {
      clock.sleep_until(schedule.due());
    }
    const PacerClock::Steady::time_point now = clock.now();
    const bool is_sent = send(schedule.due());
    if (schedule.due() < window.start) {
      continue;
    }
    ++tally.due;
    if (is_sent) {
      tally.lag_ns.Record(std::chrono::nanoseconds(now - schedule.due()).count());
    } else {
      ++tally.not_sent;
    }
  }
  return tally;
}

}  // namespace attention
