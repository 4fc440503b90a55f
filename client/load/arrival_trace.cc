#include "client/load/arrival_trace.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

/// A year.
constexpr double kMaxMilliseconds = 365.0 * 24 * 3600 * 1000;

struct Entry {
  double at_ms = 0.0;
  std::optional<int64_t> length;
};

/// Parses the words of one line.
absl::StatusOr<Entry> ParseEntry(const std::vector<std::string>& words) {
  Entry entry;
  if (!absl::SimpleAtod(words[0], &entry.at_ms) ||
      !(entry.at_ms >= 0.0 && entry.at_ms <= kMaxMilliseconds)) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected milliseconds since the start, found \"", words[0], "\""));
  }
  if (words.size() == 1) {
    return entry;
  }
  ASSIGN_OR_RETURN(entry.length, ParseLength(words[1]));
  if (words.size() > 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a time and a length, found \"", words[2], "\" too"));
  }
  return entry;
}

absl::Status CheckFollows(const Entry& entry, const std::vector<Entry>& before) {
  if (before.empty()) {
    return absl::OkStatus();
  }
  if (entry.at_ms < before.back().at_ms) {
    return absl::InvalidArgumentError(absl::StrCat("expected a time not before ",
                                                   before.back().at_ms, " ms of the line above, ",
                                                   "found ", entry.at_ms));
  }
  if (entry.length.has_value() != before.back().length.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a length on all lines or on none, found ",
                     entry.length.has_value() ? "one here" : "none here"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Entry>> ReadEntries(const std::string& path) {
  std::vector<Entry> entries;
  const auto take = [&](const std::vector<std::string>& words) -> absl::Status {
    ASSIGN_OR_RETURN(const Entry entry, ParseEntry(words));
    RETURN_IF_ERROR(CheckFollows(entry, entries));
    entries.push_back(entry);
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(ReadLines(path, take));
  if (entries.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected times, found none"));
  }
  return entries;
}

}  // namespace

absl::StatusOr<ArrivalTrace> ReadArrivalTrace(const std::string& path) {
  ASSIGN_OR_RETURN(const std::vector<Entry> entries, ReadEntries(path));
  ArrivalTrace trace{.path = path};
  std::map<int64_t, double> counts;
  for (const Entry& entry : entries) {
    trace.times.emplace_back(std::llround(entry.at_ms * 1e6));
    if (entry.length.has_value()) {
      ++counts[*entry.length];
    }
  }
  trace.lengths = MixOf(counts.empty() ? "" : absl::StrCat("schedule:", path), counts);
  const std::vector<int64_t>& lengths = trace.lengths.lengths;
  for (const Entry& entry : entries) {
    if (entry.length.has_value()) {
      trace.kinds.push_back(std::lower_bound(lengths.begin(), lengths.end(), *entry.length) -
                            lengths.begin());
    }
  }
  return trace;
}

}  // namespace attention
