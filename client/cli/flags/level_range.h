// Levels of load as they are written: "4", "1:16", "1:16:5".
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace attention {

/// Levels from the first to the last, in steps.
struct LevelRange {
  double start = 1.0;
  double end = 1.0;
  std::optional<double> step = std::nullopt;

  bool is_one() const { return start == end; }
  /// All levels, in steps of `default_step` if `step` is absent.
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

}  // namespace attention
