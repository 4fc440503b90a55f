#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/load/report.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

/// What runs must have in common for their sum to be one.
absl::Status CheckAlike(const BenchReport& report, const BenchReport& first) {
  if (report.subject.request != first.subject.request ||
      report.subject.model != first.subject.model ||
      report.subject.protocol != first.subject.protocol) {
    return absl::InvalidArgumentError(absl::StrCat(
        "merge: expected runs of one request, found ", first.subject.model, " ",
        first.subject.request, " and ", report.subject.model, " ", report.subject.request));
  }
  if (report.levels.size() != first.levels.size()) {
    return absl::InvalidArgumentError(absl::StrCat("merge: expected runs of as many levels, found ",
                                                   first.levels.size(), " and ",
                                                   report.levels.size()));
  }
  for (size_t i = 0; i < first.levels.size(); ++i) {
    if (report.levels[i].options.open_loop.has_value() !=
        first.levels[i].options.open_loop.has_value()) {
      return absl::InvalidArgumentError(
          "merge: expected either closed loops or open ones, found both");
    }
  }
  return absl::OkStatus();
}

void MergeVerification(const BenchLevel& from, BenchLevel& into) {
  if (!from.verification.has_value()) {
    return;
  }
  if (!into.verification.has_value()) {
    into.verification = from.verification;
    return;
  }
  into.verification->sampled += from.verification->sampled;
  into.verification->identical += from.verification->identical;
  // The worst of them.
  if (from.verification->reference.has_value() && !from.verification->reference->agreed()) {
    into.verification->reference = from.verification->reference;
  }
}

BenchLevel MergeLevel(const std::vector<BenchReport>& reports, size_t index) {
  BenchLevel merged = reports.front().levels[index];
  std::vector<LoadResult> results;
  for (const BenchReport& report : reports) {
    const BenchLevel& level = report.levels[index];
    results.push_back(level.result);
    if (&report == &reports.front()) {
      continue;
    }
    MergeVerification(level, merged);
    if (merged.options.open_loop.has_value()) {
      merged.options.open_loop->arrivals.rate_per_s += LevelValue(level.options);
    } else {
      merged.options.concurrency += level.options.concurrency;
    }
    merged.options.connections += level.options.connections;
  }
  merged.result = MergeResults(std::move(results));
  merged.stability = JudgeStability(merged.result.series, merged.stability.window,
                                    merged.options.stability.value_or(StabilityRule()));
  for (SloCheck& check : merged.slo) {
    check = CheckSlo(check.target, merged.result);
  }
  return merged;
}

}  // namespace

absl::StatusOr<BenchReport> MergeReports(const std::vector<BenchReport>& reports) {
  BenchReport merged = reports.front();
  for (const BenchReport& report : reports) {
    RETURN_IF_ERROR(CheckAlike(report, merged));
    merged.started = std::min(merged.started, report.started);
    merged.tags.insert(report.tags.begin(), report.tags.end());
  }
  for (size_t i = 0; i < merged.levels.size(); ++i) {
    merged.levels[i] = MergeLevel(reports, i);
  }
  // Of one run; the levels that were tried are not those of the sum.
  merged.search.reset();
  return merged;
}

}  // namespace attention
