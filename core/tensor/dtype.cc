#include "core/tensor/dtype.h"

#include <bit>
#include <cstring>

#include "core/tensor/half_bits.h"

namespace attention {
namespace {

// Converts `count` elements. It reads and writes through memcpy, so that the loop becomes vector
// code on any instruction set.
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

// Returns the function for two types. REQUIRES: the types differ.
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
