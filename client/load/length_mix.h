// Lengths of requests, if they differ.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace attention {

/// The maximum length of a sequence.
inline constexpr int64_t kMaxLength = 100'000'000;

/// Lengths and how often each comes, as relative weights > 0.
struct LengthMix {
  std::string text;              // as it was written
  std::vector<int64_t> lengths;  // strictly ascending, >= 1
  std::vector<double> weights;   // one for each length
};

/// Parses "fixed:128"; "uniform:8..512"; "zipf:1.1:8..512", where the k-th shortest has the weight
/// 1 / k^1.1; "file:PATH" with one length a line, each line as likely. INVALID_ARGUMENT quotes what
/// is wrong; NOT_FOUND names a file that cannot be read.
absl::StatusOr<LengthMix> ParseLengthMix(const std::string& text);

/// Returns a mix of the lengths that `counts` has, each as likely as it is frequent.
LengthMix MixOf(const std::string& text, const std::map<int64_t, double>& counts);

/// Parses a length of 1 to kMaxLength.
absl::StatusOr<int64_t> ParseLength(const std::string& text);

/// Calls `take` with the words of each line, which blanks or commas separate. Lines without words
/// are left out, and so is text after a #. NOT_FOUND for a file that cannot be read;
/// INVALID_ARGUMENT for a line that `take` refuses, with its number.
absl::Status ReadLines(const std::string& path,
                       const std::function<absl::Status(const std::vector<std::string>&)>& take);

/// Draws indices with given weights; the same ones for the same seed, on every machine.
class WeightedDraw {
 public:
  /// REQUIRES: at least one weight, all > 0.
  WeightedDraw(const std::vector<double>& weights, uint64_t seed);

  size_t Next();

 private:
  std::vector<double> sums_;  // of the weights up to each index
  std::mt19937_64 generator_;
};

/// Returns a number in [0, 1), from the upper 53 bits of the next draw.
inline double DrawUniform(std::mt19937_64& generator) {
  return static_cast<double>(generator() >> 11) * 0x1p-53;
}

}  // namespace attention
