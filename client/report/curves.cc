#include "client/report/curves.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace attention {
namespace {

/// Eight colours, each once more dashed.
constexpr size_t kMostCurves = 16;

}  // namespace

std::string LevelName(const BenchLevel& level) {
  return level.options.open_loop.has_value()
             ? absl::StrFormat("%.6g/s", LevelValue(level.options))
             : absl::StrFormat("%.6g under way", LevelValue(level.options));
}

std::vector<const BenchLevel*> SortedLevels(const BenchReport& report) {
  std::vector<const BenchLevel*> levels;
  for (const BenchLevel& level : report.levels) {
    levels.push_back(&level);
  }
  std::stable_sort(levels.begin(), levels.end(), [](const BenchLevel* a, const BenchLevel* b) {
    return LevelValue(a->options) < LevelValue(b->options);
  });
  return levels;
}

const BenchLevel& MainLevel(const BenchReport& report) {
  const std::vector<const BenchLevel*> levels = SortedLevels(report);
  const auto highest = std::find_if(levels.rbegin(), levels.rend(),
                                    [](const BenchLevel* level) { return MeetsTargets(*level); });
  return highest == levels.rend() ? *levels.front() : **highest;
}

std::vector<Curve> CurvesOf(const std::vector<NamedReport>& reports) {
  std::vector<Curve> curves;
  if (reports.size() > 1) {
    for (const NamedReport& run : reports) {
      const BenchLevel& level = MainLevel(run.report);
      curves.push_back({.name = run.report.levels.size() == 1
                                    ? run.name
                                    : absl::StrCat(run.name, ", ", LevelName(level)),
                        .subject = &run.report.subject,
                        .level = &level});
    }
    return curves;
  }
  const std::vector<const BenchLevel*> levels = SortedLevels(reports.front().report);
  const size_t shown = std::min(levels.size(), kMostCurves);
  for (size_t i = 0; i < shown; ++i) {
    const BenchLevel* level = levels[shown == 1 ? 0 : i * (levels.size() - 1) / (shown - 1)];
    curves.push_back(
        {.name = LevelName(*level), .subject = &reports.front().report.subject, .level = level});
  }
  return curves;
}

}  // namespace attention
