// Element types of tensors, and conversion between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace attention {

enum class Dtype : uint8_t { kF32, kBf16, kF16 };

/// Returns the size of one element in bytes.
constexpr size_t SizeOf(Dtype dtype) { return dtype == Dtype::kF32 ? 4 : 2; }

/// Returns "FP32", "BF16" or "FP16".
std::string_view Name(Dtype dtype);

/// bfloat16: the upper half of an IEEE binary32.
struct Bf16 {
  uint16_t bits;
};

/// IEEE binary16.
struct F16 {
  uint16_t bits;
};

/// Converts exactly. NaN stays NaN.
float ToFloat(Bf16 value);
float ToFloat(F16 value);

/// Rounds to nearest, ties to even. NaN stays NaN; F16 overflows to infinity.
Bf16 ToBf16(float value);
F16 ToF16(float value);

/// Converts `count` elements; equal types are copied byte for byte. `source` and `target` need no
/// alignment and do not overlap.
void Convert(Dtype source_dtype, const void* source, Dtype target_dtype, void* target,
             int64_t count);

}  // namespace attention
