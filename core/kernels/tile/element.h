// The numbers of each dtype, one at a time and a register at a time. The file of each instruction
// set includes it.
#pragma once

#include "core/kernels/tile/vec16.h"
#include "core/tensor/half_bits.h"

namespace attention {
namespace {

inline float BitsToFloat(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}

inline uint32_t FloatToBits(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  return bits;
}

/// The numbers of a dtype: the type in which they are stored, and their conversions to and from
/// f32. Write rounds to nearest, ties to even.
template <Dtype kDtype>
struct Element;
template <>
struct Element<Dtype::kF32> {
  using Type = float;
  static float Read(float value) { return value; }
  static float Write(float value) { return value; }
};
template <>
struct Element<Dtype::kBf16> {
  using Type = uint16_t;
  static float Read(uint16_t value) { return BitsToFloat(F32BitsOfBf16(value)); }
  static uint16_t Write(float value) { return Bf16BitsOfF32(FloatToBits(value)); }
};
template <>
struct Element<Dtype::kF16> {
  using Type = uint16_t;
  static float Read(uint16_t value) { return BitsToFloat(F32BitsOfF16(value)); }
  static uint16_t Write(float value) { return F16BitsOfF32(FloatToBits(value)); }
};

/// Calls f(Element<dtype>{}).
template <typename F>
inline void ForDtype(Dtype dtype, const F& f) {
  switch (dtype) {
    case Dtype::kF32:
      return f(Element<Dtype::kF32>{});
    case Dtype::kBf16:
      return f(Element<Dtype::kBf16>{});
    case Dtype::kF16:
      return f(Element<Dtype::kF16>{});
  }
}

/// Pairs of bf16 values, each in one 32-bit lane as they are stored.
struct Bf16Pairs {
  using Type = uint16_t;
};

/// Reads a register of elements as f32.
template <typename E>
inline Register ReadRegister(const typename E::Type* from) {
  float values[kRegisterLanes];
  for (int64_t i = 0; i < kRegisterLanes; ++i) {
    values[i] = E::Read(from[i]);
  }
  return LoadRegister(values);
}
template <>
inline Register ReadRegister<Element<Dtype::kF32>>(const float* from) {
  return LoadRegister(from);
}
template <>
inline Register ReadRegister<Element<Dtype::kBf16>>(const uint16_t* from) {
  return __builtin_bit_cast(Register, LoadHalves(from) << 16);
}
#if defined(__F16C__) || defined(__aarch64__)  // SSE4.1 has no instruction for f16
template <>
inline Register ReadRegister<Element<Dtype::kF16>>(const uint16_t* from) {
  return LoadF16(from);
}
#endif
template <>
inline Register ReadRegister<Bf16Pairs>(const uint16_t* from) {
  Register lanes;
  __builtin_memcpy(&lanes, from, sizeof(lanes));
  return lanes;
}

/// Reads `count` elements, at most those of a register, and zeros behind them.
template <typename E>
inline Register ReadFirst(const typename E::Type* from, int64_t count) {
  typename E::Type elements[sizeof(Register) / sizeof(typename E::Type)] = {};
  for (int64_t i = 0; i < count; ++i) {
    elements[i] = from[i];
  }
  return ReadRegister<E>(elements);
}

}  // namespace
}  // namespace attention
