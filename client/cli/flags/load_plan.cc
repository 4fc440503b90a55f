// The plan that the flags of load describe.
#include <chrono>
#include <memory>
#include <utility>

#include "client/cli/flags/help_group.h"
#include "client/cli/flags/level_range.h"
#include "client/cli/flags/load_flags.h"
#include "client/cli/flags/server_flags.h"
#include "client/load/arrival_trace.h"
#include "client/load/load_result.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

LevelRange RangeOf(const LoadFlags& flags) {
  if (!flags.rate.empty()) {
    return *ParseRates(flags.rate);
  }
  if (!flags.concurrency.empty()) {
    return *ParseConcurrency(flags.concurrency);
  }
  const double lowest = flags.is_open() ? 10.0 : 1.0;
  return {.start = lowest, .end = lowest};
}

absl::Duration DurationOf(const LoadFlags& flags) {
  if (!flags.duration.empty()) {
    return *ParseDuration(flags.duration);
  }
  return flags.requests > 0 || !flags.schedule.empty() ? absl::InfiniteDuration()
                                                       : absl::Seconds(10);
}

absl::Duration WarmupOf(const LoadFlags& flags) {
  if (!flags.warmup.empty()) {
    return *ParseDuration(flags.warmup);
  }
  const bool is_counted = flags.requests > 0 || flags.warmup_requests > 0;
  return is_counted || !flags.schedule.empty() ? absl::ZeroDuration() : absl::Seconds(1);
}

absl::StatusOr<ArrivalOptions> ArrivalsOf(const LoadFlags& flags, uint64_t seed) {
  ArrivalOptions arrivals{
      .rate_per_s = RangeOf(flags).start,
      .arrivals = flags.arrivals == "poisson" ? Arrivals::kPoisson : Arrivals::kConstant,
      .seed = seed};
  if (!flags.ramp.empty()) {
    const LevelRange ramp = *ParseRamp(flags.ramp);
    arrivals.rate_per_s = ramp.start;
    arrivals.ramp = Ramp{.to_rate_per_s = ramp.end,
                         .start_s = absl::ToDoubleSeconds(WarmupOf(flags)),
                         .length_s = absl::ToDoubleSeconds(DurationOf(flags))};
  }
  if (!flags.schedule.empty()) {
    ASSIGN_OR_RETURN(ArrivalTrace trace, ReadArrivalTrace(flags.schedule));
    const double seconds = std::chrono::duration<double>(trace.times.back()).count();
    arrivals.rate_per_s = Share(static_cast<double>(trace.times.size()), seconds);
    arrivals.trace = std::make_shared<const ArrivalTrace>(std::move(trace));
  }
  return arrivals;
}

std::optional<StabilityRule> StabilityOf(const LoadFlags& flags) {
  if (!flags.stability_percentage.has_value() && !flags.max_trials.has_value() &&
      !flags.require_stable) {
    return std::nullopt;
  }
  const StabilityRule by_default;
  return StabilityRule{.percentage = flags.stability_percentage.value_or(by_default.percentage),
                       .percentile = flags.percentile,
                       .max_trials = flags.max_trials.value_or(by_default.max_trials),
                       .is_required = flags.require_stable};
}

std::vector<SloTarget> TargetsOf(const LoadFlags& flags) {
  std::vector<SloTarget> targets;
  for (const std::string& text : flags.slo) {
    targets.push_back(*ParseSlo(text));
  }
  return targets;
}

}  // namespace

absl::Status CheckLoadFlags(const LoadFlags& flags) {
  const bool has_stability = StabilityOf(flags).has_value();
  const bool has_targets = !TargetsOf(flags).empty();
  const bool is_endless = DurationOf(flags) == absl::InfiniteDuration();
  const bool has_shape = !flags.ramp.empty() || !flags.schedule.empty();
  return CheckRules({
      {flags.search && !has_targets, "--search needs a target: --slo"},
      {flags.search && has_shape, "--search goes with --rate or --concurrency, or alone"},
      {flags.percentile.has_value() && !has_stability,
       "--percentile goes with --stability-percentage"},
      {has_stability && (flags.requests > 0 || has_shape),
       "trials (--stability-percentage, --max-trials, --require-stable) go with a duration and a "
       "level: without --requests, --ramp and --schedule"},
      {!flags.arrivals.empty() && (!flags.is_open() || !flags.schedule.empty()),
       "--arrivals goes with --rate or --ramp"},
      {flags.max_in_flight.has_value() && !flags.is_open(),
       "--max-in-flight goes with --rate, --ramp or --schedule"},
      {!flags.ramp.empty() && is_endless, "--ramp goes with --duration"},
      {!flags.ramp.empty() && flags.warmup_requests > 0, "--ramp goes with --warmup by time"},
  });
}

absl::StatusOr<BenchPlan> PlanOf(const LoadFlags& flags, uint64_t seed) {
  const LevelRange range = RangeOf(flags);
  BenchPlan plan;
  plan.options.concurrency = static_cast<int>(range.start);
  plan.options.connections = flags.connections;
  plan.options.warmup = WarmupOf(flags);
  plan.options.warmup_requests = flags.warmup_requests;
  plan.options.duration = DurationOf(flags);
  plan.options.requests = flags.requests;
  plan.options.seed = seed;
  plan.options.stability = StabilityOf(flags);
  plan.slo = TargetsOf(flags);
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
