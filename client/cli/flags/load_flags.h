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

struct LoadFlags {
  // A closed loop, unless one of the next three is given. Empty: not given.
  std::string concurrency;
  std::string rate;
  std::string ramp;
  std::string schedule;
  std::string arrivals;
  std::optional<int> max_in_flight;
  int connections = 1;

  // Empty or 0: not given.
  std::string duration;
  int64_t requests = 0;
  std::string warmup;
  int64_t warmup_requests = 0;

  std::optional<double> stability_percentage;
  std::optional<double> percentile;
  std::optional<int> max_trials;
  bool require_stable = false;

  std::vector<std::string> slo;
  bool search = false;

  bool is_open() const {
    return !rate.empty() || !ramp.empty() || !schedule.empty() || (search && concurrency.empty());
  }
};

/// Adds the flags to `command`; texts that do not parse are refused by the parser.
void AddLoadFlags(CLI::App& command, LoadFlags& flags);

/// INVALID_ARGUMENT when the flags, each fine alone, do not go together.
absl::Status CheckLoadFlags(const LoadFlags& flags);

/// The plan that the flags describe, without the connection, the timeout and the samples. Reads the
/// schedule; errors are those of ReadArrivalTrace. REQUIRES: CheckLoadFlags is OK.
absl::StatusOr<BenchPlan> PlanOf(const LoadFlags& flags, uint64_t seed);

}  // namespace attention
