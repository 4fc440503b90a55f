// A benchmark: one level of load, a range of levels, or a search for the highest that meets its
// targets.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "client/load/bench_report.h"
#include "client/load/bench_runner.h"

namespace attention {

/// The bounds and the resolution of a search.
struct SearchPlan {
  double lowest = 1.0;
  /// The highest level; absent: the level is doubled until it misses a target or reaches kMaxLevel.
  std::optional<double> highest = std::nullopt;
  /// The search ends at this distance between levels; absent: 5% of the highest level that met its
  /// targets, but at least 1 for requests in flight.
  std::optional<double> resolution = std::nullopt;

  static constexpr double kMaxLevel = 1e6;
};

/// The loads that a benchmark runs.
struct BenchPlan {
  /// A level is the rate of `open_loop`, or without it the concurrency.
  LoadOptions options;
  /// Empty: one level, that of the options.
  std::vector<double> levels = {};
  /// Replaces `levels`. REQUIRES: targets.
  std::optional<SearchPlan> search = std::nullopt;
  std::vector<SloTarget> slo = {};
};

/// What a caller wants to know while a bench runs: on_level is called before each level, on_result
/// after it.
struct BenchWatch {
  LoadControl control;
  std::function<void(const LoadOptions&)> on_level = nullptr;
  std::function<void(const BenchLevel&)> on_result = nullptr;
};

/// Runs the levels in turn. A range with targets ends with the first level that misses one, and any
/// plan ends after the level during which the load was stopped from outside. Fills all of the
/// report but the command and the tags. Errors of BenchRunner::Run.
absl::StatusOr<BenchReport> RunBench(BenchRunner& runner, const BenchPlan& plan,
                                     const BenchWatch& watch);

}  // namespace attention
