// A register of four floats of NEON, for vec16_pairs.h, which describes the functions.
#pragma once

#include <arm_neon.h>

#include <cstdint>

namespace attention {
namespace {

using Register = float32x4_t;
using Integers = int32x4_t;
constexpr int64_t kRegisterLanes = 4;

inline Register SetRegister(float value) { return vdupq_n_f32(value); }
inline Register LoadRegister(const float* source) { return vld1q_f32(source); }
inline void StoreRegister(Register v, float* target) { vst1q_f32(target, v); }
/// Loads 16-bit integers into 32-bit lanes.
inline Integers LoadHalves(const uint16_t* source) {
  return __builtin_bit_cast(Integers, vmovl_u16(vld1_u16(source)));
}
/// Loads f16 values as f32.
inline Register LoadF16(const uint16_t* source) {
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(source)));
}

inline Register IfLess(Register a, Register b, Register yes, Register no) {
  return vbslq_f32(vcltq_f32(a, b), yes, no);
}
/// Returns `b` where `a` is NaN, as x86 does. NEON's instruction for a maximum would return NaN.
inline Register Max(Register a, Register b) { return IfLess(b, a, a, b); }
inline Register MulAdd(Register a, Register b, Register c) { return vfmaq_f32(c, a, b); }
inline Register Sqrt(Register v) { return vsqrtq_f32(v); }
inline Register Round(Register v) { return vrndnq_f32(v); }

/// Adds n to the bits of the exponent.
inline Register ScaleByPow2(Register v, Register n) {
  const int32x4_t exponents = vshlq_n_s32(vcvtnq_s32_f32(n), 23);
  const int32x4_t scaled = vaddq_s32(vreinterpretq_s32_f32(v), exponents);
  const uint32x4_t vanishes = vcltq_f32(n, vdupq_n_f32(-125.0f));
  return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_s32(scaled), vanishes));
}

inline void StoreBytes(Register v, uint8_t* target) {
  const uint16x4_t words = vqmovun_s32(vcvtq_s32_f32(v));
  const uint8x8_t bytes = vqmovn_u16(vcombine_u16(words, words));
  __builtin_memcpy(target, &bytes, 4);
}

inline float First(Register v) { return vgetq_lane_f32(v, 0); }

inline float ReduceMax(Register v) {
  const Register m = Max(v, vextq_f32(v, v, 2));
  return First(Max(m, vextq_f32(m, m, 1)));
}
inline float ReduceSum(Register v) {
  const Register m = v + vextq_f32(v, v, 2);
  return First(m + vextq_f32(m, m, 1));
}

/// Transposes a square of 4 rows of 4 32-bit lanes.
inline void Transpose(Register (&v)[4]) {
  const float64x2_t a = vreinterpretq_f64_f32(vzip1q_f32(v[0], v[1]));
  const float64x2_t b = vreinterpretq_f64_f32(vzip2q_f32(v[0], v[1]));
  const float64x2_t c = vreinterpretq_f64_f32(vzip1q_f32(v[2], v[3]));
  const float64x2_t d = vreinterpretq_f64_f32(vzip2q_f32(v[2], v[3]));
  v[0] = vreinterpretq_f32_f64(vzip1q_f64(a, c));
  v[1] = vreinterpretq_f32_f64(vzip2q_f64(a, c));
  v[2] = vreinterpretq_f32_f64(vzip1q_f64(b, d));
  v[3] = vreinterpretq_f32_f64(vzip2q_f64(b, d));
}

}  // namespace
}  // namespace attention
