// A register of four floats of SSE4.1, for vec16_pairs.h, which describes the functions.
#pragma once

#include <smmintrin.h>

#include <cstdint>

namespace attention {
namespace {

typedef float Register __attribute__((vector_size(16)));
typedef int32_t Integers __attribute__((vector_size(16)));
constexpr int64_t kRegisterLanes = 4;

inline Register SetRegister(float value) { return _mm_set1_ps(value); }
inline Register LoadRegister(const float* source) { return _mm_loadu_ps(source); }
inline void StoreRegister(Register v, float* target) { _mm_storeu_ps(target, v); }
/// Loads 16-bit integers into 32-bit lanes.
inline Integers LoadHalves(const uint16_t* source) {
  int64_t halves;
  __builtin_memcpy(&halves, source, sizeof(halves));
  return __builtin_bit_cast(Integers, _mm_cvtepu16_epi32(_mm_cvtsi64_si128(halves)));
}

inline Register IfLess(Register a, Register b, Register yes, Register no) {
  return _mm_blendv_ps(no, yes, _mm_cmplt_ps(a, b));
}
inline Register Max(Register a, Register b) { return _mm_max_ps(a, b); }
inline Register MulAdd(Register a, Register b, Register c) { return a * b + c; }
inline Register Sqrt(Register v) { return _mm_sqrt_ps(v); }
inline Register Round(Register v) {
  return _mm_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/// Adds n to the bits of the exponent.
inline Register ScaleByPow2(Register v, Register n) {
  const __m128i exponents = _mm_slli_epi32(_mm_cvtps_epi32(n), 23);
  const __m128 scaled = _mm_castsi128_ps(_mm_add_epi32(_mm_castps_si128(v), exponents));
  return _mm_andnot_ps(_mm_cmplt_ps(n, _mm_set1_ps(-125.0f)), scaled);
}

inline void StoreBytes(Register v, uint8_t* target) {
  const __m128i integers = _mm_cvttps_epi32(v);
  const __m128i words = _mm_packus_epi32(integers, integers);
  const int32_t bytes = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
  __builtin_memcpy(target, &bytes, sizeof(bytes));
}

inline float First(Register v) { return _mm_cvtss_f32(v); }

inline float ReduceMax(Register v) {
  const Register m = _mm_max_ps(v, _mm_movehl_ps(v, v));
  return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}
inline float ReduceSum(Register v) {
  const Register m = v + _mm_movehl_ps(v, v);
  return _mm_cvtss_f32(_mm_add_ss(m, _mm_movehdup_ps(m)));
}

/// Transposes a square of 4 rows of 4 32-bit lanes.
inline void Transpose(Register (&v)[4]) { _MM_TRANSPOSE4_PS(v[0], v[1], v[2], v[3]); }

}  // namespace
}  // namespace attention
