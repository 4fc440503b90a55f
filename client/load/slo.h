// Targets of a load: "p99=50ms", "errors=0.1%".
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/load/load_result.h"

namespace attention {

struct SloTarget {
  enum class Of { kPercentile, kMean, kMax, kErrors };

  std::string text;  // as it was written
  Of of = Of::kPercentile;
  double percent = 99.0;  // of kPercentile
  /// The limit in milliseconds, or for kErrors as a share of the requests, 0 to 1.
  double limit = 0.0;
};

/// Parses "p50=…" to "p99.99=…", "mean=…" or "avg=…", "max=…" with a duration; "errors=…" with a
/// share such as 0.1% or 0.001. INVALID_ARGUMENT quotes what is wrong.
absl::StatusOr<SloTarget> ParseSlo(const std::string& text);

struct SloCheck {
  SloTarget target;
  /// The measured value, in the unit of the limit; absent if there were no answers, or if it is
  /// that of a call that was not answered.
  std::optional<double> measured = std::nullopt;
  /// Whether the largest latency was measured, since there are too few answers for a percentile.
  bool is_largest = false;
  /// Whether the calls that were in flight when the window ended made the value worse.
  bool counts_unfinished = false;
  int64_t answers = 0;
  /// The calls of the window that were not answered, if the target is one of latency.
  int64_t unanswered = 0;
  bool is_met = false;
};

/// Checks a target, of errors and answers within the window. A call that failed, or was not sent,
/// is slower than any that was answered: a percentile or a maximum that falls on it is missed. In a
/// mean it counts as the slowest answer, or as what failures took if that is longer. A percentile
/// of too few calls is judged by the largest, which it does not exceed. A load without answers
/// meets no target of latency. In a closed loop the calls that were in flight when the window ended
/// are judged too, however they ended, if that makes the value worse: no answer within the window
/// tells of a server that stopped answering. In an open loop they are among the latencies.
SloCheck CheckSlo(const SloTarget& target, const LoadResult& result);

/// Returns a checked target as text: "p99=50ms met: 12.300 ms", "errors=1% MISSED: 2.50%".
std::string SloText(const SloCheck& check);

}  // namespace attention
