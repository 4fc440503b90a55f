#include "client/load/slo.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "client/load/load_result.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

absl::Status Malformed(const std::string& text) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
  double number = 0.0;
  const bool lacks_unit = absl::SimpleAtod(parts.second, &number);
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", text, "\": expected a target such as p99=50ms, mean=10ms, max=1s or errors=0.1%",
      !lacks_unit               ? ""
      : parts.first == "errors" ? ", found a share without % that is not within 0 and 1"
                                : ", found a time without a unit"));
}

/// Parses a share such as 0.1% or 0.001.
bool ParseShare(const std::string& text, double& share) {
  absl::string_view number = text;
  const bool is_percent = absl::ConsumeSuffix(&number, "%");
  if (!absl::SimpleAtod(number, &share)) {
    return false;
  }
  share /= is_percent ? 100.0 : 1.0;
  return share >= 0.0 && share <= 1.0;
}

absl::Status ParseName(const std::string& name, SloTarget& target) {
  if (name == "mean" || name == "avg") {
    target.of = SloTarget::Of::kMean;
  } else if (name == "max") {
    target.of = SloTarget::Of::kMax;
  } else if (name == "errors") {
    target.of = SloTarget::Of::kErrors;
  } else if (name.size() < 2 || name[0] != 'p' ||
             !absl::SimpleAtod(name.substr(1), &target.percent) ||
             !(target.percent > 0.0 && target.percent <= 100.0)) {
    return Malformed(target.text);
  }
  return absl::OkStatus();
}

/// The share of failures of the window (FailureTally::in_window): requests that failed or were not
/// sent, divided by these plus the answers.
double ErrorShare(const LoadResult& result) {
  const int64_t failed = NumFailuresInWindow(result.failures);
  return Share(static_cast<double>(failed),
               static_cast<double>(failed + result.latency_ns.count()));
}

/// The value of `latency` that `target` limits, in milliseconds. REQUIRES: latency has values.
double MeasuredMs(const SloTarget& target, const Histogram& latency) {
  if (target.of == SloTarget::Of::kMean) {
    return Milliseconds(latency.mean());
  }
  const double percent = target.of == SloTarget::Of::kMax ? 100.0 : target.percent;
  return Milliseconds(static_cast<double>(latency.Percentile(percent)));
}

/// Checks a target of latency. REQUIRES: there are answers.
void CheckLatency(const LoadResult& result, SloCheck& check) {
  const Histogram& latency = result.latency_ns;
  check.is_largest =
      check.target.of == SloTarget::Of::kPercentile && !latency.IsEnoughFor(check.target.percent);
  check.measured = MeasuredMs(check.target, latency);
  if (result.pace.has_value()) {
    return;
  }
  Histogram all = latency;
  all.Merge(result.unfinished_ns);
  const double with_unfinished = check.is_largest ? Milliseconds(static_cast<double>(all.max()))
                                                  : MeasuredMs(check.target, all);
  check.counts_unfinished = with_unfinished > *check.measured;
  check.measured = std::max(*check.measured, with_unfinished);
}

}  // namespace

absl::StatusOr<SloTarget> ParseSlo(const std::string& text) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
  SloTarget target{.text = text};
  RETURN_IF_ERROR(ParseName(parts.first, target));
  if (target.of == SloTarget::Of::kErrors) {
    return ParseShare(parts.second, target.limit) ? absl::StatusOr<SloTarget>(target)
                                                  : Malformed(text);
  }
  absl::Duration limit;
  if (!absl::ParseDuration(parts.second, &limit) || limit <= absl::ZeroDuration()) {
    return Malformed(text);
  }
  target.limit = absl::ToDoubleMilliseconds(limit);
  return target;
}

SloCheck CheckSlo(const SloTarget& target, const LoadResult& result) {
  SloCheck check{.target = target, .answers = result.latency_ns.count()};
  if (target.of == SloTarget::Of::kErrors) {
    check.measured = ErrorShare(result);
  } else if (check.answers > 0) {
    CheckLatency(result, check);
  }
  check.is_met = check.measured.has_value() && *check.measured <= target.limit;
  return check;
}

}  // namespace attention
