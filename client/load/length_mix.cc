#include "client/load/length_mix.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

/// The maximum number of different lengths; a request is encoded for each.
constexpr int64_t kMaxLengths = 100'000;

absl::Status Malformed(const std::string& text, const std::string& found) {
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", text, "\": expected fixed:N, uniform:MIN..MAX, zipf:S:MIN..MAX or ",
      "file:PATH, with lengths of 1 to ", kMaxLength, " and S of 0 to 20, found \"", found, "\""));
}

absl::StatusOr<int64_t> ParseLength(const std::string& text, const std::string& part) {
  int64_t length = 0;
  if (!absl::SimpleAtoi(part, &length) || length < 1 || length > kMaxLength) {
    return Malformed(text, part);
  }
  return length;
}

/// Parses MIN..MAX. The k-th length has the weight 1 / k^exponent.
absl::StatusOr<LengthMix> ParseRange(const std::string& text, const std::string& range,
                                     double exponent) {
  const std::vector<std::string> ends = absl::StrSplit(range, "..");
  if (ends.size() != 2) {
    return Malformed(text, range);
  }
  ASSIGN_OR_RETURN(const int64_t min, ParseLength(text, ends[0]));
  ASSIGN_OR_RETURN(const int64_t max, ParseLength(text, ends[1]));
  if (max < min || max - min >= kMaxLengths) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\": expected at least one and at ",
                                                   "most ", kMaxLengths, " lengths, found ", min,
                                                   " to ", max));
  }
  LengthMix mix{text, {}, {}};
  for (int64_t length = min; length <= max; ++length) {
    mix.lengths.push_back(length);
    mix.weights.push_back(std::pow(static_cast<double>(length - min + 1), -exponent));
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
  std::ifstream file(path);
  if (!file) {
    return absl::NotFoundError(absl::StrCat(path, ": expected a file of lengths, found none"));
  }
  std::map<int64_t, double> counts;
  int64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    const std::string stripped(absl::StripAsciiWhitespace(line));
    int64_t length = 0;
    if (stripped.empty()) {
      continue;
    }
    if (!absl::SimpleAtoi(stripped, &length) || length < 1 || length > kMaxLength) {
      return absl::InvalidArgumentError(absl::StrCat(path, ", line ", number,
                                                     ": expected a length of 1 to ", kMaxLength,
                                                     ", found \"", stripped, "\""));
    }
    ++counts[length];
  }
  if (counts.empty() || std::ssize(counts) > kMaxLengths) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected 1 to ", kMaxLengths,
                                                   " different lengths, found ", counts.size()));
  }
  LengthMix mix{text, {}, {}};
  for (const auto& [length, count] : counts) {
    mix.lengths.push_back(length);
    mix.weights.push_back(count);
  }
  return mix;
}

}  // namespace

absl::StatusOr<LengthMix> ParseLengthMix(const std::string& text) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
  const auto& [kind, rest] = parts;
  if (kind == "fixed") {
    ASSIGN_OR_RETURN(const int64_t length, ParseLength(text, rest));
    return LengthMix{text, {length}, {1.0}};
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
