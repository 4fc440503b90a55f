// The offset that softmax subtracts from the exponents of a row. The softmax of each instruction
// set and the code that uses its sums must agree on it to the last bit.
#pragma once

namespace attention {
namespace {  // each instruction set has its own copy

/// If the offset of a row is not smaller than this in magnitude, softmax subtracts the maximum of
/// the row from the scores before it multiplies them by the scale.
constexpr float kHugeExponent = 0x1p20f;

/// Returns a * b, rounded to f32: the compiler cannot contract it into a fused multiply-add.
[[maybe_unused]] inline float RoundedProduct(float a, float b) {
  float product = a * b;
#ifdef __aarch64__
  asm("" : "+w"(product));
#else
  asm("" : "+x"(product));
#endif
  return product;
}

/// Returns the offset of a row with this maximum of its scores: its probabilities are
/// 2^(score * scale_log2e - offset).
[[maybe_unused]] inline double RowExponent(float row_max, float scale_log2e) {
  const float offset = RoundedProduct(row_max, scale_log2e);
  return __builtin_fabsf(offset) < kHugeExponent
             ? offset
             : static_cast<double>(row_max) * static_cast<double>(scale_log2e);
}

}  // namespace
}  // namespace attention
