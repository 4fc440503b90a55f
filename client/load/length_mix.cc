#include "client/load/length_mix.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/runtime/status_macros.h"
#include "core/runtime/text_file.h"

namespace attention {
namespace {

/// The maximum number of different lengths; a request is encoded for each.
constexpr int64_t kMaxLengths = 100'000;
/// The maximum size of a file of lines; a day at 1,000 requests/s has 86 million.
constexpr size_t kMaxFileBytes = size_t{4} << 30;

absl::Status Malformed(const std::string& text, const std::string& found) {
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", text, "\": expected fixed:N, uniform:MIN..MAX, zipf:S:MIN..MAX or ",
      "file:PATH, with lengths of 1 to ", kMaxLength, " and S of 0 to 20, found \"", found, "\""));
}

/// Parses MIN..MAX. The k-th length has the weight 1 / k^exponent.
absl::StatusOr<LengthMix> ParseRange(const std::string& text, const std::string& range,
                                     double exponent) {
  const std::vector<std::string> ends = absl::StrSplit(range, "..");
  const auto min = ParseLength(ends.front()), max = ParseLength(ends.back());
  if (ends.size() != 2 || !min.ok() || !max.ok()) {
    return Malformed(text, range);
  }
  if (*max < *min || *max - *min >= kMaxLengths) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\": expected at least one and at ",
                                                   "most ", kMaxLengths, " lengths, found ", *min,
                                                   " to ", *max));
  }
  LengthMix mix{text, {}, {}};
  for (int64_t length = *min; length <= *max; ++length) {
    mix.lengths.push_back(length);
    mix.weights.push_back(std::pow(static_cast<double>(length - *min + 1), -exponent));
  }
  return mix;
}

absl::StatusOr<LengthMix> ParseZipf(const std::string& text, const std::string& rest) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(rest, absl::MaxSplits(':', 1));
  double exponent = 0.0;
  // The comparison also refuses NaN.
  if (!absl::SimpleAtod(parts.first, &exponent) || !(exponent >= 0.0 && exponent <= 20.0)) {
    return Malformed(text, rest);
  }
  return ParseRange(text, parts.second, exponent);
}

absl::StatusOr<LengthMix> ReadLengths(const std::string& text, const std::string& path) {
  std::map<int64_t, double> counts;
  const auto take = [&](const std::vector<std::string>& words) -> absl::Status {
    ASSIGN_OR_RETURN(const int64_t length, ParseLength(absl::StrJoin(words, " ")));
    ++counts[length];
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(ReadLines(path, take));
  if (counts.empty() || std::ssize(counts) > kMaxLengths) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected 1 to ", kMaxLengths,
                                                   " different lengths, found ", counts.size()));
  }
  return MixOf(text, counts);
}

}  // namespace

absl::StatusOr<LengthMix> ParseLengthMix(const std::string& text) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
  const auto& [kind, rest] = parts;
  if (kind == "fixed") {
    const absl::StatusOr<int64_t> length = ParseLength(rest);
    return length.ok() ? MixOf(text, {{*length, 1.0}})
                       : absl::StatusOr<LengthMix>(Malformed(text, rest));
  }
  if (kind == "uniform") {
    return ParseRange(text, rest, 0.0);
  }
  if (kind == "zipf") {
    return ParseZipf(text, rest);
  }
  if (kind == "file") {
    return ReadLengths(text, rest);
  }
  return Malformed(text, kind);
}

LengthMix MixOf(const std::string& text, const std::map<int64_t, double>& counts) {
  LengthMix mix{text, {}, {}};
  for (const auto& [length, count] : counts) {
    mix.lengths.push_back(length);
    mix.weights.push_back(count);
  }
  return mix;
}

absl::StatusOr<int64_t> ParseLength(const std::string& text) {
  int64_t length = 0;
  if (!absl::SimpleAtoi(text, &length) || length < 1 || length > kMaxLength) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a length of 1 to ", kMaxLength, ", found \"", text, "\""));
  }
  return length;
}

absl::Status ReadLines(const std::string& path,
                       const std::function<absl::Status(const std::vector<std::string>&)>& take) {
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxFileBytes));
  int64_t number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const std::vector<std::string> words = absl::StrSplit(
        line.substr(0, line.find('#')), absl::ByAnyChar(", \t\r"), absl::SkipWhitespace());
    const absl::Status status = words.empty() ? absl::OkStatus() : take(words);
    if (!status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ", line ", number, ": ", std::string(status.message())));
    }
  }
  return absl::OkStatus();
}

WeightedDraw::WeightedDraw(const std::vector<double>& weights, uint64_t seed) : generator_(seed) {
  double sum = 0.0;
  for (const double weight : weights) {
    sums_.push_back(sum += weight);
  }
}

size_t WeightedDraw::Next() {
  const double draw = DrawUniform(generator_) * sums_.back();
  const auto found = std::upper_bound(sums_.begin(), sums_.end(), draw);
  // Rounding may lift the largest draw to the last sum.
  return std::min<size_t>(found - sums_.begin(), sums_.size() - 1);
}

}  // namespace attention
