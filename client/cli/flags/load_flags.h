// The flags of `bench` that say how much load, for how long, and which targets it has. Short names
// are those of ghz.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/load/bench.h"

namespace attention {

/// Levels from the first to the last, in steps.
struct LevelRange {
  double start = 1.0;
  double end = 1.0;
  std::optional<double> step = std::nullopt;

  bool is_one() const { return start == end; }
  /// Returns all levels, in steps of `default_step` if `step` is absent.
  std::vector<double> Levels(double default_step) const;
};

// The functions below parse START, START:END or START:END:STEP, where the end is not below the
// start, the step is > 0, and there are at most 1000 levels. INVALID_ARGUMENT quotes what is wrong.

/// Parses requests in flight: whole numbers from 1 to 100000, in steps of 1 by default.
absl::StatusOr<LevelRange> ParseConcurrency(const std::string& text);

/// Parses requests a second, from 0.001 to 1e6, in steps of the start by default.
absl::StatusOr<LevelRange> ParseRates(const std::string& text);

/// Parses FROM:TO, two rates of which either may be the higher.
absl::StatusOr<LevelRange> ParseRamp(const std::string& text);

struct LoadFlags {
  // The load is a closed loop of `concurrency` requests, unless is_open().
  std::optional<LevelRange> concurrency, rate, ramp;
  std::string schedule;
  std::optional<Arrivals> arrivals;
  std::optional<int> max_in_flight;
  int connections = 1;

  std::optional<absl::Duration> duration, warmup;
  int64_t requests = 0;  // 0: not given

  /// Present if any of the flags of trials is given.
  std::optional<StabilityRule> stability;
  std::optional<double> percentile;

  std::vector<SloTarget> slo;
  bool search = false;

  bool is_open() const {
    return rate.has_value() || ramp.has_value() || !schedule.empty() ||
           (search && !concurrency.has_value());
  }
};

/// Adds the flags to `command`; texts that do not parse are refused by the parser.
void AddLoadFlags(CLI::App& command, LoadFlags& flags);

/// Returns INVALID_ARGUMENT for flags that are valid alone and cannot be combined.
absl::Status CheckLoadFlags(const LoadFlags& flags);

/// Returns the plan that the flags describe, without the connection, the timeout and the samples.
/// Reads the schedule; errors are those of ReadArrivalTrace. REQUIRES: CheckLoadFlags is OK.
absl::StatusOr<BenchPlan> PlanOf(const LoadFlags& flags, uint64_t seed);

}  // namespace attention
