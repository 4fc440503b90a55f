#include "client/load/pacer.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

using Time = PacerClock::Steady::time_point;

/// The latest time of a schedule: a year.
constexpr double kMaxMilliseconds = 365.0 * 24 * 3600 * 1000;

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

absl::StatusOr<ArrivalTrace> ReadArrivalTrace(const std::string& path, absl::Duration warmup,
                                              int64_t max_requests) {
  ArrivalTrace trace{.path = path};
  std::vector<int64_t> lengths;  // of all requests that are kept, or of none
  std::map<int64_t, double> counts;
  std::optional<bool> have_lengths;
  int64_t num_measured = 0;
  double last_ms = 0.0;
  const auto take = [&](const std::vector<std::string>& words) -> absl::Status {
    double at_ms = 0.0;
    if (!absl::SimpleAtod(words[0], &at_ms) || !(at_ms >= last_ms && at_ms <= kMaxMilliseconds)) {
      return absl::InvalidArgumentError(absl::StrCat("expected milliseconds since the start, from ",
                                                     last_ms, " on, found \"", words[0], "\""));
    }
    const bool has_length = words.size() == 2;
    if (words.size() > 2 || has_length != have_lengths.value_or(has_length)) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected a time and, on all lines or on none, a length, found ",
                       words.size(), words.size() == 1 ? " word" : " words"));
    }
    have_lengths = has_length;
    int64_t length = 0;
    if (has_length) {
      ASSIGN_OR_RETURN(length, ParseLength(words[1]));
    }
    last_ms = at_ms;
    if (max_requests > 0 && num_measured == max_requests) {
      return absl::OkStatus();
    }
    num_measured += absl::Milliseconds(at_ms) >= warmup ? 1 : 0;
    trace.times.emplace_back(std::llround(at_ms * 1e6));
    if (has_length) {
      lengths.push_back(length);
      ++counts[length];
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(ReadLines(path, take));
  if (trace.times.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected times, found none"));
  }
  if (num_measured == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected requests after the warm-up of ",
                     absl::FormatDuration(warmup), " (--warmup), found the last one after ",
                     absl::FormatDuration(absl::Milliseconds(last_ms))));
  }
  trace.lengths = MixOf(counts.empty() ? "" : absl::StrCat("schedule:", path), counts);
  const std::vector<int64_t>& different = trace.lengths.lengths;
  for (const int64_t length : lengths) {
    trace.kinds.push_back(std::lower_bound(different.begin(), different.end(), length) -
                          different.begin());
  }
  return trace;
}

PacerClock PacerClock::Real() {
  return {.now = Steady::now, .sleep_until = [](Steady::time_point until) {
            // The timer slack of this thread: by default a sleep may end 50 us late.
            static thread_local const int slack_is_set = prctl(PR_SET_TIMERSLACK, 1);
            (void)slack_is_set;
            std::this_thread::sleep_until(until);
          }};
}

Schedule::Schedule(const ArrivalOptions& options, Time start)
    : options_(options), start_(start), generator_(options.seed), due_(start) {
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
               const std::function<bool(Time)>& send) {
  PaceTally tally;
  tally.series = TimeSeries(TimeSeries::SliceFor(absl::FromChrono(window.length())));
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
