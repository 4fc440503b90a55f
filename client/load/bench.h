// A benchmark: one level of load, a range of them, or a search for the highest that keeps to its
// targets.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "client/load/bench_report.h"
#include "client/load/bench_runner.h"

namespace attention {

/// The levels between which a search looks, and how near it comes.
struct SearchPlan {
  double lowest = 1.0;
  /// Absent: the level is doubled until it misses, or is kMaxLevel.
  std::optional<double> highest = std::nullopt;
  /// The distance at which it ends; absent: 5% of the highest level that was met, but at least 1
  /// for requests under way.
  std::optional<double> resolution = std::nullopt;

  static constexpr double kMaxLevel = 1e6;
};

/// What of the load a benchmark changes.
struct BenchPlan {
  /// With `open_loop` a level is its rate, else the concurrency.
  LoadOptions options;
  /// Empty: one level, that of the options.
  std::vector<double> levels = {};
  /// Instead of levels. REQUIRES: targets.
  std::optional<SearchPlan> search = std::nullopt;
  std::vector<SloTarget> slo = {};
};

/// Called before and after each level.
struct BenchWatch {
  LoadControl control;
  std::function<void(const LoadOptions&)> on_level = nullptr;
  std::function<void(const BenchLevel&)> on_result = nullptr;
};

/// Runs the levels in turn. A range with targets ends with the first level that misses one, and any
/// plan when the load is stopped from outside, after the level that was cut short by that. Fills
/// all of the report but the command and the tags. Errors of BenchRunner::Run.
absl::StatusOr<BenchReport> RunBench(BenchRunner& runner, const BenchPlan& plan,
                                     const BenchWatch& watch);

}  // namespace attention
