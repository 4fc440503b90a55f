#include "client/load/slo.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "client/load/load_result.h"
#include "core/runtime/counted.h"
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

/// The latency of a call that was not answered: more than that of any that was.
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

/// The latency as which `target` counts a call that was not answered. In a mean it must be finite:
/// that of the slowest answer, or what failures took if that is longer.
int64_t UnansweredNs(const SloTarget& target, const LoadResult& result) {
  if (target.of != SloTarget::Of::kMean) {
    return kNever;
  }
  Histogram failed;
  for (const auto& [code, failure] : result.failures) {
    failed.Merge(failure.latency_ns);
  }
  return std::max(result.latency_ns.max(), static_cast<int64_t>(failed.mean()));
}

/// The failures of the window without the calls of a closed loop that ended after it.
int64_t NumEndedFailures(const Failures& failures) {
  int64_t total = 0;
  for (const auto& [code, failure] : failures) {
    total += code == kNotSent ? failure.in_window : failure.latency_ns.count();
  }
  return total;
}

/// The latencies of answers and of `unanswered` calls.
Histogram CallsOf(const SloTarget& target, const LoadResult& result, int64_t unanswered) {
  Histogram calls = result.latency_ns;
  const int64_t unanswered_ns = UnansweredNs(target, result);
  for (int64_t i = 0; i < unanswered; ++i) {
    calls.Record(unanswered_ns);
  }
  return calls;
}

/// Whether `target` is a percentile of too few calls.
bool IsOfTooFew(const SloTarget& target, const Histogram& calls) {
  return target.of == SloTarget::Of::kPercentile && !calls.IsEnoughFor(target.percent);
}

/// The value of `calls` that `target` limits, in nanoseconds; of too few for a percentile the
/// largest. REQUIRES: calls has values.
double MeasuredNs(const SloTarget& target, const Histogram& calls, bool is_largest) {
  if (target.of == SloTarget::Of::kMean) {
    return calls.mean();
  }
  const bool is_max = is_largest || target.of == SloTarget::Of::kMax;
  return static_cast<double>(calls.Percentile(is_max ? 100.0 : target.percent));
}

/// Checks a target of latency.
void CheckLatency(const LoadResult& result, SloCheck& check) {
  const SloTarget& target = check.target;
  check.unanswered = NumFailuresInWindow(result.failures);
  if (check.answers == 0) {
    return;
  }
  const Histogram calls = CallsOf(target, result, check.unanswered);
  check.is_largest = IsOfTooFew(target, calls);
  double measured_ns = MeasuredNs(target, calls, check.is_largest);
  if (!result.pace.has_value()) {
    Histogram all = CallsOf(target, result, NumEndedFailures(result.failures));
    all.Merge(result.unfinished_ns);
    const double with_unfinished = MeasuredNs(target, all, check.is_largest);
    check.counts_unfinished = with_unfinished > measured_ns;
    measured_ns = std::max(measured_ns, with_unfinished);
  }
  if (measured_ns < static_cast<double>(kNever)) {
    check.measured = Milliseconds(measured_ns);
  }
}

/// The measured value of a target: "12.300 ms", "2.50%", "12.300 ms, the largest of 20", "none, for
/// 3 of 103 calls were not answered".
std::string MeasuredText(const SloCheck& check) {
  if (!check.measured.has_value()) {
    return check.answers == 0 ? "no answers"
                              : absl::StrFormat("none, for %d of %d calls were not answered",
                                                check.unanswered, check.answers + check.unanswered);
  }
  if (check.target.of == SloTarget::Of::kErrors) {
    return absl::StrFormat("%.3g%%", 100.0 * *check.measured);
  }
  std::string measured = absl::StrFormat("%.3f ms", *check.measured);
  if (check.is_largest) {
    absl::StrAppend(&measured, ", the largest of ", check.answers);
  }
  if (check.unanswered > 0) {
    absl::StrAppend(&measured, ", with ", Counted(check.unanswered, "call"), " not answered");
  }
  if (check.counts_unfinished) {
    measured += ", with the calls in flight at the end";
  }
  return measured;
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
  if (!absl::ParseDuration(parts.second, &limit) || limit <= absl::ZeroDuration() ||
      limit == absl::InfiniteDuration()) {
    return Malformed(text);
  }
  target.limit = absl::ToDoubleMilliseconds(limit);
  return target;
}

SloCheck CheckSlo(const SloTarget& target, const LoadResult& result) {
  SloCheck check{.target = target, .answers = result.latency_ns.count()};
  if (target.of == SloTarget::Of::kErrors) {
    check.measured = ErrorShare(result);
  } else {
    CheckLatency(result, check);
  }
  check.is_met = check.measured.has_value() && *check.measured <= target.limit;
  return check;
}

std::string SloText(const SloCheck& check) {
  return absl::StrCat(check.target.text,
                      check.is_met ? " met: " : " MISSED: ", MeasuredText(check));
}

}  // namespace attention
