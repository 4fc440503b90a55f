// Conversion between the bits of f32 and those of bf16 and f16, for scalar code and for the vector
// code of each instruction set alike. The functions select values instead of branching, and ignore
// floating-point exceptions (-fno-trapping-math), so that the compiler can vectorize loops over
// them.
#pragma once

#include <cstdint>

namespace attention {
namespace {  // each instruction set has its own copy

/// Rounds an f32 to bf16, to nearest even; NaN becomes a quiet NaN.
[[maybe_unused]] inline uint16_t Bf16BitsOfF32(uint32_t bits) {
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const uint32_t quiet_nan = (bits >> 16) | 0x40;
  return static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? quiet_nan : rounded);
}

/// Converts bf16 to f32, exactly.
[[maybe_unused]] inline uint32_t F32BitsOfBf16(uint16_t bits) {
  return static_cast<uint32_t>(bits) << 16;
}

constexpr uint32_t kF32Infinity = 0x7f800000;
constexpr uint32_t kF32MagnitudeMask = 0x7fffffff;
constexpr int kF32MantissaBits = 23;
constexpr int kF16MantissaBits = 10;
constexpr int kMantissaShift = kF32MantissaBits - kF16MantissaBits;
// f32 exponents, as bits, at the limits of f16.
constexpr uint32_t kF16MinNormal = (127 - 14) << kF32MantissaBits;  // 2^-14
constexpr uint32_t kF16Overflow = (127 + 16) << kF32MantissaBits;   // 2^16
constexpr uint32_t kExponentRebias = (127 - 15) << kF32MantissaBits;

/// Converts f16 to f32, exactly; NaN keeps its bits.
[[maybe_unused]] inline uint32_t F32BitsOfF16(uint16_t bits) {
  const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fff) << kMantissaShift;
  const uint32_t normal = magnitude + kExponentRebias;
  // A subnormal gets the implicit one it lacks, and loses it again in the exact subtraction.
  const float subnormal = __builtin_bit_cast(float, magnitude + kF16MinNormal) -
                          __builtin_bit_cast(float, kF16MinNormal);
  const uint32_t infinite_or_nan = magnitude | kF32Infinity;
  uint32_t result =
      magnitude < (1u << kF32MantissaBits) ? __builtin_bit_cast(uint32_t, subnormal) : normal;
  result = magnitude >= (0x7c00u << kMantissaShift) ? infinite_or_nan : result;
  return result | static_cast<uint32_t>(bits & 0x8000) << 16;
}

/// Rounds an f32 to f16, to nearest even; larger values become infinity, NaN a quiet NaN.
[[maybe_unused]] inline uint16_t F16BitsOfF32(uint32_t bits) {
  const uint32_t magnitude = bits & kF32MagnitudeMask;
  // [65520, 65536) carries into the exponent, which makes it infinity.
  const uint32_t normal =
      (magnitude - kExponentRebias + 0xfff + ((magnitude >> kMantissaShift) & 1)) >> kMantissaShift;
  // The sum has its last mantissa bit at 2^-24, the unit of subnormals: the addition itself rounds.
  constexpr float kRounder = 0.5f;
  const uint32_t subnormal =
      __builtin_bit_cast(uint32_t, __builtin_bit_cast(float, magnitude) + kRounder) -
      __builtin_bit_cast(uint32_t, kRounder);
  const uint32_t quiet_nan = 0x7e00 | ((magnitude >> kMantissaShift) & 0x3ff);
  uint32_t result = magnitude < kF16MinNormal ? subnormal : normal;
  result = magnitude >= kF16Overflow ? 0x7c00u : result;
  result = magnitude > kF32Infinity ? quiet_nan : result;
  return static_cast<uint16_t>(result | ((bits >> 16) & 0x8000));
}

}  // namespace
}  // namespace attention
