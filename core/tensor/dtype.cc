#include "core/tensor/dtype.h"

#include <bit>
#include <cstring>

#include "core/tensor/bf16_bits.h"

namespace attention {
namespace {

constexpr uint32_t kF32Infinity = 0x7f800000;
constexpr uint32_t kF32MagnitudeMask = 0x7fffffff;
constexpr int kF32MantissaBits = 23;
constexpr int kF16MantissaBits = 10;
constexpr int kMantissaShift = kF32MantissaBits - kF16MantissaBits;
// f32 exponents, as bits, of what binary16 distinguishes.
constexpr uint32_t kF16MinNormal = (127 - 14) << kF32MantissaBits;  // 2^-14
constexpr uint32_t kF16Overflow = (127 + 16) << kF32MantissaBits;   // 2^16
constexpr uint32_t kExponentRebias = (127 - 15) << kF32MantissaBits;

// The scalar conversions have no branches but selects, and read and write through memcpy, so that
// the loops below become vector code on any instruction set.

inline uint32_t F32BitsOfF16(uint16_t bits) {
  const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fff) << kMantissaShift;
  const uint32_t normal = magnitude + kExponentRebias;
  // A denormal gets the implicit one it lacks, and loses it again in the exact subtraction.
  const float denormal =
      std::bit_cast<float>(magnitude + kF16MinNormal) - std::bit_cast<float>(kF16MinNormal);
  const uint32_t infinite_or_nan = magnitude | kF32Infinity;
  uint32_t result =
      magnitude < (1u << kF32MantissaBits) ? std::bit_cast<uint32_t>(denormal) : normal;
  result = magnitude >= (0x7c00u << kMantissaShift) ? infinite_or_nan : result;
  return result | static_cast<uint32_t>(bits & 0x8000) << 16;
}

inline uint16_t F16BitsOfF32(uint32_t bits) {
  const uint32_t magnitude = bits & kF32MagnitudeMask;
  // [65520, 65536) carries into the exponent, which makes it infinity.
  const uint32_t normal =
      (magnitude - kExponentRebias + 0xfff + ((magnitude >> kMantissaShift) & 1)) >> kMantissaShift;
  // The sum has its last mantissa bit at 2^-24, the unit of denormals: the addition itself rounds.
  constexpr float kRounder = 0.5f;
  const uint32_t denormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + kRounder) -
                            std::bit_cast<uint32_t>(kRounder);
  const uint32_t quiet_nan = 0x7e00 | ((magnitude >> kMantissaShift) & 0x3ff);
  uint32_t result = magnitude < kF16MinNormal ? denormal : normal;
  result = magnitude >= kF16Overflow ? 0x7c00u : result;
  result = magnitude > kF32Infinity ? quiet_nan : result;
  return static_cast<uint16_t>(result | ((bits >> 16) & 0x8000));
}

template <typename Source, typename Target, Target (*convert)(Source)>
void ConvertAll(const void* source, void* target, int64_t count) {
  const auto* from = static_cast<const std::byte*>(source);
  auto* to = static_cast<std::byte*>(target);
  for (int64_t i = 0; i < count; ++i) {
    Source bits;
    std::memcpy(&bits, from + i * static_cast<int64_t>(sizeof(Source)), sizeof(Source));
    const Target converted = convert(bits);
    std::memcpy(to + i * static_cast<int64_t>(sizeof(Target)), &converted, sizeof(Target));
  }
}

inline uint16_t F16BitsOfBf16(uint16_t bits) { return F16BitsOfF32(F32BitsOfBf16(bits)); }
inline uint16_t Bf16BitsOfF16(uint16_t bits) { return Bf16BitsOfF32(F32BitsOfF16(bits)); }

using Converter = void (*)(const void* source, void* target, int64_t count);

// REQUIRES: the types differ.
Converter ConverterFor(Dtype source, Dtype target) {
  switch (source) {
    case Dtype::kF32:
      return target == Dtype::kBf16 ? ConvertAll<uint32_t, uint16_t, Bf16BitsOfF32>
                                    : ConvertAll<uint32_t, uint16_t, F16BitsOfF32>;
    case Dtype::kBf16:
      return target == Dtype::kF32 ? Converter(ConvertAll<uint16_t, uint32_t, F32BitsOfBf16>)
                                   : ConvertAll<uint16_t, uint16_t, F16BitsOfBf16>;
    case Dtype::kF16:
      break;
  }
  return target == Dtype::kF32 ? Converter(ConvertAll<uint16_t, uint32_t, F32BitsOfF16>)
                               : ConvertAll<uint16_t, uint16_t, Bf16BitsOfF16>;
}

}  // namespace

std::string_view Name(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
      return "FP32";
    case Dtype::kBf16:
      return "BF16";
    case Dtype::kF16:
      break;
  }
  return "FP16";
}

float ToFloat(Bf16 value) { return std::bit_cast<float>(F32BitsOfBf16(value.bits)); }
float ToFloat(F16 value) { return std::bit_cast<float>(F32BitsOfF16(value.bits)); }
Bf16 ToBf16(float value) { return {Bf16BitsOfF32(std::bit_cast<uint32_t>(value))}; }
F16 ToF16(float value) { return {F16BitsOfF32(std::bit_cast<uint32_t>(value))}; }

void Convert(Dtype source_dtype, const void* source, Dtype target_dtype, void* target,
             int64_t count) {
  if (source_dtype != target_dtype) {
    ConverterFor(source_dtype, target_dtype)(source, target, count);
  } else if (count > 0) {
    std::memcpy(target, source, static_cast<size_t>(count) * SizeOf(source_dtype));
  }
}

}  // namespace attention
