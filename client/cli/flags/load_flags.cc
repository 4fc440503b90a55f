#include "client/cli/flags/load_flags.h"

#include <chrono>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "client/cli/flags/help_group.h"
#include "client/cli/flags/server_flags.h"
#include "client/load/arrival_trace.h"
#include "client/load/load_result.h"
#include "client/load/slo.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

constexpr double kMaxLevels = 1000.0;
constexpr double kMinRate = 1e-3;
constexpr double kMaxRate = 1e6;
constexpr double kMaxConcurrency = 1e5;

absl::StatusOr<LevelRange> ParseRange(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  std::vector<double> numbers;
  for (const std::string& part : parts) {
    double number = 0.0;
    if (parts.size() > 3 || !absl::SimpleAtod(part, &number) || !std::isfinite(number) ||
        number <= 0.0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", text, "\": expected N, START:END or START:END:STEP of numbers above 0, ",
          "found \"", part, "\""));
    }
    numbers.push_back(number);
  }
  LevelRange range{.start = numbers[0], .end = numbers.size() > 1 ? numbers[1] : numbers[0]};
  if (numbers.size() > 2) {
    range.step = numbers[2];
  }
  return range;
}

/// Parses levels of `min` to `max`; without a step, steps are of 1 or of the start.
absl::StatusOr<LevelRange> ParseLevels(const std::string& text, double min, double max,
                                       bool steps_by_start) {
  ASSIGN_OR_RETURN(const LevelRange range, ParseRange(text));
  if (range.start < min || range.end > max || range.end < range.start) {
    return absl::InvalidArgumentError(
        absl::StrFormat("expected levels from %.10g to %.10g, the last not below the first, "
                        "found \"%s\"",
                        min, max, text));
  }
  const double step = range.step.value_or(steps_by_start ? range.start : 1.0);
  const double steps = (range.end - range.start) / step;
  if (steps >= kMaxLevels) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected at most ", kMaxLevels, " levels, found ", std::floor(steps) + 1.0));
  }
  return range;
}

bool IsWhole(double number) { return number == std::floor(number); }

void AddLevelFlags(CLI::App& command, LoadFlags& flags) {
  HelpGroup group(command, "How much load");
  CLI::Option* const concurrency = group.Parsed(
      "-c,--concurrency", ParseConcurrency, Into(flags.concurrency), "N",
      "Closed loop: requests in flight at any time (default 1); START:END[:STEP] measures each "
      "level in turn, in steps of 1 if there is no STEP");
  CLI::Option* const rate = group.Parsed(
      "-r,--rate", ParseRates, Into(flags.rate), "R",
      "Open loop: requests a second, sent when they are due; START:END[:STEP] measures each level "
      "in turn, in steps of START if there is no STEP");
  rate->excludes(concurrency);
  CLI::Option* const ramp =
      group.Parsed("--ramp", ParseRamp, Into(flags.ramp), "FROM:TO",
                   "Open loop: a rate that rises or falls evenly over the duration");
  ramp->excludes(concurrency)->excludes(rate);
  group
      .Value("--schedule", flags.schedule, "FILE",
             "Open loop: replay recorded requests, a line for each: milliseconds since the start "
             "and, if on all lines, a length in tokens")
      ->excludes(concurrency)
      ->excludes(rate)
      ->excludes(ramp);
  group
      .Setter<std::string>(
          "--arrivals",
          [&flags](const std::string& name) {
            flags.arrivals = name == "poisson" ? Arrivals::kPoisson : Arrivals::kConstant;
          },
          "constant|poisson", "Open loop: evenly spaced (default), or at random as from many users")
      ->check(HelpGroup::OneOf("constant|poisson"))
      ->excludes(concurrency);
  group
      .Value("--max-in-flight", flags.max_in_flight, "N",
             "Open loop: maximum in flight (default 10000); requests beyond it are not sent and "
             "count as errors")
      ->check(Within(1, 1000000))
      ->excludes(concurrency);
  group.Default("--connections", flags.connections, "N", "TCP connections to spread requests over")
      ->check(Within(1, 1000));
}

void AddTimeFlags(CLI::App& command, LoadFlags& flags) {
  HelpGroup group(command, "For how long");
  group
      .Parsed("-z,--duration", ParseDuration, Into(flags.duration), "DURATION",
              "How long to measure: 10s unless a number of requests or a schedule sets the end; "
              "with them, whichever comes first")
      ->check(IsPositiveDuration);
  group.Value("-n,--requests", flags.requests, "N", "How many requests to measure")
      ->check(Within(1.0, 1e12));
  group.Parsed("--warmup", ParseDuration, Into(flags.warmup), "DURATION",
               "Load before the measurement; default 1s, or 0 with --requests or --schedule");
}

void AddStabilityFlags(CLI::App& command, LoadFlags& flags) {
  HelpGroup group(command, "Trials until the load is stable");
  const auto rule = [&flags]() -> StabilityRule& {
    return flags.stability.has_value() ? *flags.stability : flags.stability.emplace();
  };
  group
      .Setter<double>(
          "-s,--stability-percentage", [rule](double x) { rule().percentage = x; }, "%",
          "Repeat trials of the duration until the last 3 differ by at most this much in "
          "throughput and latency (default 10 with --max-trials or --require-stable)")
      ->check(Within(0.01, 1000.0));
  group
      .Setter<int>(
          "--max-trials", [rule](int n) { rule().max_trials = n; }, "N",
          "At most this many trials (default 10)")
      ->check(Within(3, 1000));
  group.OnSwitch(
      "--require-stable", [rule] { rule().is_required = true; },
      "Fail when the load does not become stable");
  group
      .Value("--percentile", flags.percentile, "P",
             "Compare this percentile of latency instead of the mean")
      ->check(Within(1.0, 100.0));
}

void AddTargetFlags(CLI::App& command, LoadFlags& flags) {
  HelpGroup group(command, "Targets");
  group
      .Setter<std::vector<std::string>>(
          "--slo",
          [&flags](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) {
              flags.slo.push_back(*ParseSlo(text));
            }
          },
          "TARGET",
          "A target, such as p99=50ms (p0.01 to p100, mean, max) or errors=0.1%; may be repeated. "
          "A call that timed out, failed or was not sent is slower than any answered one. With "
          "--decode, of steps. A range ends with the first level that misses one")
      ->expected(1)
      ->take_all()
      ->check(Accepts(ParseSlo));
  group.Switch("--search", flags.search,
               "Find the highest rate that meets the targets: within the range of --rate (or of "
               "-c, requests in flight) to its step; or double it (from 10) until it misses, then "
               "halve the distance down to 5%");
}

LevelRange RangeOf(const LoadFlags& flags) {
  const double lowest = flags.is_open() ? 10.0 : 1.0;
  return flags.rate.has_value() ? *flags.rate
                                : flags.concurrency.value_or(LevelRange{lowest, lowest});
}

absl::Duration DurationOf(const LoadFlags& flags) {
  const bool has_other_end = flags.requests > 0 || !flags.schedule.empty();
  return flags.duration.value_or(has_other_end ? absl::InfiniteDuration() : absl::Seconds(10));
}

absl::Duration WarmupOf(const LoadFlags& flags) {
  const bool has_other_end = flags.requests > 0 || !flags.schedule.empty();
  return flags.warmup.value_or(has_other_end ? absl::ZeroDuration() : absl::Seconds(1));
}

absl::StatusOr<ArrivalOptions> ArrivalsOf(const LoadFlags& flags, uint64_t seed) {
  ArrivalOptions arrivals{.rate_per_s = RangeOf(flags).start,
                          .arrivals = flags.arrivals.value_or(Arrivals::kConstant),
                          .seed = seed};
  if (flags.ramp.has_value()) {
    arrivals.rate_per_s = flags.ramp->start;
    arrivals.ramp = Ramp{.to_rate_per_s = flags.ramp->end,
                         .start_s = absl::ToDoubleSeconds(WarmupOf(flags)),
                         .length_s = absl::ToDoubleSeconds(DurationOf(flags))};
  }
  if (!flags.schedule.empty()) {
    ASSIGN_OR_RETURN(ArrivalTrace trace,
                     ReadArrivalTrace(flags.schedule, WarmupOf(flags), flags.requests));
    const double seconds = std::chrono::duration<double>(trace.times.back()).count();
    arrivals.rate_per_s = Share(static_cast<double>(trace.times.size()), seconds);
    arrivals.trace = std::make_shared<const ArrivalTrace>(std::move(trace));
  }
  return arrivals;
}

}  // namespace

std::vector<double> LevelRange::Levels(double default_step) const {
  std::vector<double> levels;
  const double distance = step.value_or(default_step);
  // Computed from an index, so that rounding does not leave out the last level.
  for (int i = 0; start + i * distance <= end * (1.0 + 1e-9); ++i) {
    levels.push_back(start + i * distance);
  }
  return levels;
}

absl::StatusOr<LevelRange> ParseConcurrency(const std::string& text) {
  ASSIGN_OR_RETURN(const LevelRange range, ParseLevels(text, 1.0, kMaxConcurrency, false));
  if (!IsWhole(range.start) || !IsWhole(range.end) || !IsWhole(range.step.value_or(1.0))) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\": expected whole numbers"));
  }
  return range;
}

absl::StatusOr<LevelRange> ParseRates(const std::string& text) {
  return ParseLevels(text, kMinRate, kMaxRate, true);
}

absl::StatusOr<LevelRange> ParseRamp(const std::string& text) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
  LevelRange range;
  const auto is_rate = [](double rate) { return rate >= kMinRate && rate <= kMaxRate; };
  if (!absl::SimpleAtod(parts.first, &range.start) || !absl::SimpleAtod(parts.second, &range.end) ||
      !is_rate(range.start) || !is_rate(range.end)) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\": expected FROM:TO, requests a ",
                                                   "second from ", kMinRate, " to ", kMaxRate));
  }
  return range;
}

void AddLoadFlags(CLI::App& command, LoadFlags& flags) {
  AddLevelFlags(command, flags);
  AddTimeFlags(command, flags);
  AddStabilityFlags(command, flags);
  AddTargetFlags(command, flags);
}

absl::Status CheckLoadFlags(const LoadFlags& flags) {
  const bool has_stability = flags.stability.has_value();
  const bool has_ramp = flags.ramp.has_value();
  const bool has_shape = has_ramp || !flags.schedule.empty();
  return CheckRules({
      {flags.search && flags.slo.empty(), "--search needs a target: --slo"},
      {flags.search && has_shape, "--search cannot be combined with --ramp and --schedule"},
      {flags.percentile.has_value() && !has_stability, "--percentile needs --stability-percentage"},
      {has_stability && (flags.requests > 0 || has_shape),
       "trials (--stability-percentage, --max-trials, --require-stable) cannot be combined with "
       "--requests, --ramp and --schedule"},
      {flags.arrivals.has_value() && (!flags.is_open() || !flags.schedule.empty()),
       "--arrivals needs --rate or --ramp"},
      {flags.max_in_flight.has_value() && !flags.is_open(),
       "--max-in-flight needs --rate, --ramp or --schedule"},
      {has_ramp && DurationOf(flags) == absl::InfiniteDuration(), "--ramp needs --duration"},
  });
}

absl::StatusOr<BenchPlan> PlanOf(const LoadFlags& flags, uint64_t seed) {
  const LevelRange range = RangeOf(flags);
  BenchPlan plan{.options = {.concurrency = static_cast<int>(range.start),
                             .connections = flags.connections,
                             .warmup = WarmupOf(flags),
                             .duration = DurationOf(flags),
                             .requests = flags.requests,
                             .seed = seed,
                             .stability = flags.stability},
                 .slo = flags.slo};
  if (flags.stability.has_value()) {
    plan.options.stability->percentile = flags.percentile;
  }
  if (flags.is_open()) {
    ASSIGN_OR_RETURN(ArrivalOptions arrivals, ArrivalsOf(flags, seed));
    plan.options.open_loop = OpenLoopOptions{.arrivals = std::move(arrivals)};
    plan.options.open_loop->max_in_flight =
        flags.max_in_flight.value_or(plan.options.open_loop->max_in_flight);
  }
  if (flags.search) {
    plan.search = SearchPlan{.lowest = range.start, .resolution = range.step};
    if (!range.is_one()) {
      plan.search->highest = range.end;
    }
  } else if (!range.is_one()) {
    plan.levels = range.Levels(flags.is_open() ? range.start : 1.0);
  }
  return plan;
}

}  // namespace attention
