#include "client/load/arrival_trace.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/runtime/counted.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

// The latest time of a schedule: a year.
constexpr double kMaxMilliseconds = 365.0 * 24 * 3600 * 1000;

// Collects the lines of a file.
class TraceReader {
 public:
  TraceReader(absl::Duration warmup, int64_t max_requests)
      : warmup_(warmup), max_requests_(max_requests) {}

  absl::Status TakeLine(const std::vector<std::string>& words) {
    double at_ms = 0.0;
    if (!absl::SimpleAtod(words[0], &at_ms) || !(at_ms >= last_ms_ && at_ms <= kMaxMilliseconds)) {
      return absl::InvalidArgumentError(absl::StrCat("expected milliseconds since the start, from ",
                                                     last_ms_, " on, found \"", words[0], "\""));
    }
    const bool has_length = words.size() == 2;
    if (words.size() > 2 || has_length != have_lengths_.value_or(has_length)) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected a time and, on all lines or on none, a length, found ",
                       Counted(std::ssize(words), "word")));
    }
    have_lengths_ = has_length;
    int64_t length = 0;
    if (has_length) {
      ASSIGN_OR_RETURN(length, ParseLength(words[1]));
    }
    last_ms_ = at_ms;
    if (max_requests_ == 0 || num_measured_ < max_requests_) {
      Keep(at_ms, length);
    }
    return absl::OkStatus();
  }

  // Returns the trace of the lines of `path`.
  absl::StatusOr<ArrivalTrace> Finish(const std::string& path) {
    if (trace_.times.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": expected times, found none"));
    }
    if (num_measured_ == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": expected requests after the warm-up of ",
                       absl::FormatDuration(warmup_), " (--warmup), found the last one after ",
                       absl::FormatDuration(absl::Milliseconds(last_ms_))));
    }
    trace_.path = path;
    trace_.lengths = MixOf(counts_.empty() ? "" : absl::StrCat("schedule:", path), counts_);
    const std::vector<int64_t>& different = trace_.lengths.lengths;
    for (const int64_t length : lengths_) {
      trace_.kinds.push_back(std::lower_bound(different.begin(), different.end(), length) -
                             different.begin());
    }
    return std::move(trace_);
  }

 private:
  void Keep(double at_ms, int64_t length) {
    num_measured_ += absl::Milliseconds(at_ms) >= warmup_ ? 1 : 0;
    trace_.times.emplace_back(std::llround(at_ms * 1e6));
    if (*have_lengths_) {
      lengths_.push_back(length);
      ++counts_[length];
    }
  }

  const absl::Duration warmup_;
  const int64_t max_requests_;
  ArrivalTrace trace_;
  std::vector<int64_t> lengths_;  // of all requests that are kept, or of none
  std::map<int64_t, double> counts_;
  std::optional<bool> have_lengths_;
  int64_t num_measured_ = 0;
  double last_ms_ = 0.0;
};

}  // namespace

absl::StatusOr<ArrivalTrace> ReadArrivalTrace(const std::string& path, absl::Duration warmup,
                                              int64_t max_requests) {
  TraceReader reader(warmup, max_requests);
  RETURN_IF_ERROR(ReadLines(
      path, [&](const std::vector<std::string>& words) { return reader.TakeLine(words); }));
  return reader.Finish(path);
}

}  // namespace attention
