#include "client/cli/flags/level_range.h"

#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
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
    // The comparison also refuses NaN.
    if (parts.size() > 3 || !absl::SimpleAtod(part, &number) || !(number > 0.0)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", text, "\": expected N, START:END or START:END:STEP, found \"", part, "\""));
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
    return absl::InvalidArgumentError(absl::StrCat("expected levels from ", min, " to ", max,
                                                   ", the last not below the first, found ",
                                                   range.start, " to ", range.end));
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

}  // namespace attention
