// What the probabilities of a row are relative to. Each instruction set's softmax and the code that
// uses its sums must agree to the last bit.
#pragma once

namespace attention {
namespace {  // each instruction set has its own copy

/// Exponents of 2 from which on softmax subtracts a row's maximum before it multiplies.
constexpr float kHugeExponent = 0x1p20f;

/// The product as the type holds it, kept from contraction into a fused multiply-add.
[[maybe_unused]] inline float RoundedProduct(float a, float b) {
  float product = a * b;
#ifdef __aarch64__
  asm("" : "+w"(product));
#else
  asm("" : "+x"(product));
#endif
  return product;
}

/// The exponent of 2 that a row's probabilities are relative to.
[[maybe_unused]] inline double RowExponent(float row_max, float scale_log2e) {
  const float offset = RoundedProduct(row_max, scale_log2e);
  return __builtin_fabsf(offset) < kHugeExponent
             ? offset
             : static_cast<double>(row_max) * static_cast<double>(scale_log2e);
}

}  // namespace
}  // namespace attention
