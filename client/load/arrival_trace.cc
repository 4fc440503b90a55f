#include "client/load/arrival_trace.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

/// The latest time of a schedule: a year.
constexpr double kMaxMilliseconds = 365.0 * 24 * 3600 * 1000;

}  // namespace

absl::StatusOr<ArrivalTrace> ReadArrivalTrace(const std::string& path) {
  ArrivalTrace trace{.path = path};
  std::vector<int64_t> lengths;  // of all requests, or of none
  std::map<int64_t, double> counts;
  double last_ms = 0.0;
  const auto take = [&](const std::vector<std::string>& words) -> absl::Status {
    double at_ms = 0.0;
    if (!absl::SimpleAtod(words[0], &at_ms) || !(at_ms >= last_ms && at_ms <= kMaxMilliseconds)) {
      return absl::InvalidArgumentError(absl::StrCat("expected milliseconds since the start, from ",
                                                     last_ms, " on, found \"", words[0], "\""));
    }
    const bool has_length = words.size() == 2;
    const bool is_first = trace.times.empty();
    if (words.size() > 2 || (!is_first && has_length == lengths.empty())) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected a time and, on all lines or on none, a length, found ",
                       words.size(), words.size() == 1 ? " word" : " words"));
    }
    if (has_length) {
      ASSIGN_OR_RETURN(lengths.emplace_back(), ParseLength(words[1]));
      ++counts[lengths.back()];
    }
    trace.times.emplace_back(std::llround(at_ms * 1e6));
    last_ms = at_ms;
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(ReadLines(path, take));
  if (trace.times.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected times, found none"));
  }
  trace.lengths = MixOf(counts.empty() ? "" : absl::StrCat("schedule:", path), counts);
  const std::vector<int64_t>& different = trace.lengths.lengths;
  for (const int64_t length : lengths) {
    trace.kinds.push_back(std::lower_bound(different.begin(), different.end(), length) -
                          different.begin());
  }
  return trace;
}

}  // namespace attention
