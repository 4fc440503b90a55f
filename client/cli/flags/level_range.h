// Levels of load as they are written: "4", "1:16", "1:16:5".
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace attention {

/// From the first to the last, in steps.
struct LevelRange {
  double start = 1.0;
  double end = 1.0;
  std::optional<double> step = std::nullopt;

  bool is_one() const { return start == end; }
  /// In steps of `default_step` if there is none of its own.
  std::vector<double> Levels(double default_step) const;
};

// START, START:END or START:END:STEP, the end not below the start, the step > 0, and at most 1000
// levels. INVALID_ARGUMENT quotes what is wrong.

/// Requests under way: whole numbers from 1 to 100000, by 1 if there is no step.
absl::StatusOr<LevelRange> ParseConcurrency(const std::string& text);

/// Requests a second, from 0.001 to 1e6, by the start if there is no step.
absl::StatusOr<LevelRange> ParseRates(const std::string& text);

/// FROM:TO, two rates of which either may be the higher.
absl::StatusOr<LevelRange> ParseRamp(const std::string& text);

}  // namespace attention
