// Gaussian scores in f32, however large the distance is.
#pragma once

#include <cstdint>

namespace attention {
namespace {  // each instruction set has its own copy

/// The largest exponent that is its own score. A score falls by as much for each doubling beyond
/// it, so that nearer keys still get all the weight, and f32 holds the score of every finite
/// distance. Keys whose exponents f32 cannot distinguish, or that are beyond double precision, have
/// equal scores.
constexpr double kLargestExponent = 0x1p117;

/// Returns the score of exp(-square / divisor); -infinity for a key at infinite distance.
[[maybe_unused]] inline float GaussianScore(double square, double divisor) {
  const double exponent = square / divisor;
  if (!(exponent > kLargestExponent) || square > __DBL_MAX__) {  // NaN stays
    return static_cast<float>(-exponent);
  }
  // The bits of a double count its doublings, with 52 bits for the part of one.
  const double limited = exponent < __DBL_MAX__ ? exponent : __DBL_MAX__;
  const int64_t bits =
      __builtin_bit_cast(int64_t, limited) - __builtin_bit_cast(int64_t, kLargestExponent);
  return static_cast<float>(-kLargestExponent * (1 + static_cast<double>(bits) * 0x1p-52));
}

/// Returns the exponent that has this score: what GaussianScore was given, up to rounding.
[[maybe_unused]] inline double ExponentOfGaussianScore(float score) {
  const double exponent = -static_cast<double>(score);
  if (!(exponent > kLargestExponent) || exponent > __FLT_MAX__) {  // NaN and infinity stay
    return exponent;
  }
  const auto bits = static_cast<int64_t>((exponent / kLargestExponent - 1) * 0x1p52);
  return __builtin_bit_cast(double, bits + __builtin_bit_cast(int64_t, kLargestExponent));
}

}  // namespace
}  // namespace attention
