#include "core/kernels/tile/sum_exp.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>

namespace attention {
namespace {

constexpr size_t kBlock = 256;
constexpr size_t kSums = 8;        // independent sums: a single one would wait for each addition
constexpr float kLowest = -86.0f;  // exp of a smaller number is not a normal number
constexpr float kLog2E = 1.44269504f;
// ln 2 in two parts, the first short enough that its product with a whole number is exact (Cody and
// Waite 1980).
constexpr float kLn2High = 0.693359375f;
constexpr float kLn2Low = -2.12194440e-4f;

// Returns exp(x) for -86 <= x <= 0, as 2^n exp(r) with |r| <= ln(2) / 2, for which Taylor's
// polynomial of degree 7 is within half a unit in the last place. It has no branches, so that the
// compiler makes vector code of a loop over it.
inline float Exp(float x) {
  // Adding 1.5 * 2^23 leaves the nearest whole number in the low bits.
  const float shifted = x * kLog2E + 12582912.0f;
  const float n = shifted - 12582912.0f;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float p = 1.0f / 5040;
  for (const float c : {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f}) {
    p = p * r + c;
  }
  const uint32_t power = (std::bit_cast<uint32_t>(shifted) + 127u) << 23;
  return p * std::bit_cast<float>(power);
}

}  // namespace

double SumExp(std::span<const float> values, float largest) {
  if (!std::isfinite(largest)) {
    return std::nan("");
  }
  double sums[kSums] = {};
  for (size_t begin = 0; begin < values.size(); begin += kBlock) {
    const std::span<const float> block =
        values.subspan(begin, std::min(kBlock, values.size() - begin));
    float terms[kBlock] = {};
    for (size_t i = 0; i < block.size(); ++i) {
      const float x = block[i] - largest;
      terms[i] = x >= kLowest ? Exp(x) : x < kLowest ? 0.0f : x;  // x: NaN
    }
    for (size_t i = 0; i < kBlock; i += kSums) {
      for (size_t j = 0; j < kSums; ++j) {
        sums[j] += terms[i + j];
      }
    }
  }
  return std::accumulate(std::begin(sums), std::end(sums), 0.0);
}

}  // namespace attention
