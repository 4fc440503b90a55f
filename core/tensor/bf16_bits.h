// How f32 is rounded to bf16, for scalar code and for the vector code of each instruction set
// alike.
#pragma once

#include <cstdint>

namespace attention {
namespace {  // each instruction set has its own copy

/// Rounds to nearest even; NaN becomes a quiet NaN. Without branches, so that loops become vector
/// code.
[[maybe_unused]] inline uint16_t Bf16BitsOfF32(uint32_t bits) {
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const uint32_t quiet_nan = (bits >> 16) | 0x40;
  return static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? quiet_nan : rounded);
}

[[maybe_unused]] inline uint32_t F32BitsOfBf16(uint16_t bits) {
  return static_cast<uint32_t>(bits) << 16;
}

}  // namespace
}  // namespace attention
