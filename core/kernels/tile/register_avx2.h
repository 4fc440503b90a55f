// A register of eight floats of AVX2, for vec16_pairs.h, which describes the functions.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace attention {
namespace {

typedef float Register __attribute__((vector_size(32)));
typedef int32_t Integers __attribute__((vector_size(32)));
constexpr int64_t kRegisterLanes = 8;

inline Register SetRegister(float value) { return _mm256_set1_ps(value); }
inline Register LoadRegister(const float* source) { return _mm256_loadu_ps(source); }
inline void StoreRegister(Register v, float* target) { _mm256_storeu_ps(target, v); }
/// Loads 16-bit integers into 32-bit lanes.
inline Integers LoadHalves(const uint16_t* source) {
  __m128i halves;
  __builtin_memcpy(&halves, source, sizeof(halves));
  return __builtin_bit_cast(Integers, _mm256_cvtepu16_epi32(halves));
}
/// Loads f16 values as f32.
inline Register LoadF16(const uint16_t* source) {
  __m128i halves;
  __builtin_memcpy(&halves, source, sizeof(halves));
  return _mm256_cvtph_ps(halves);
}

/// Loads the first `count` elements, none of them if it is negative, and reads no further; the
/// remaining lanes are `other`.
inline Register LoadFirstOfRegister(const float* source, int64_t count, float other) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i wanted = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), lanes);
  return _mm256_blendv_ps(SetRegister(other), _mm256_maskload_ps(source, wanted),
                          _mm256_castsi256_ps(wanted));
}

inline Register IfLess(Register a, Register b, Register yes, Register no) {
  return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}
inline Register Max(Register a, Register b) { return _mm256_max_ps(a, b); }
inline Register MulAdd(Register a, Register b, Register c) { return _mm256_fmadd_ps(a, b, c); }
inline Register Sqrt(Register v) { return _mm256_sqrt_ps(v); }
inline Register Round(Register v) {
  return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/// Adds n to the bits of the exponent.
inline Register ScaleByPow2(Register v, Register n) {
  const __m256i exponents = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
  const __m256 scaled = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(v), exponents));
  return _mm256_andnot_ps(_mm256_cmp_ps(n, _mm256_set1_ps(-125.0f), _CMP_LT_OQ), scaled);
}

inline void StoreBytes(Register v, uint8_t* target) {
  const __m256i integers = _mm256_cvttps_epi32(v);
  const __m128i words =
      _mm_packus_epi32(_mm256_castsi256_si128(integers), _mm256_extracti128_si256(integers, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(target), _mm_packus_epi16(words, words));
}

inline float First(Register v) { return _mm256_cvtss_f32(v); }

inline float ReduceMax(Register v) {
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}
inline float ReduceSum(Register v) {
  __m128 m = _mm256_castps256_ps128(v) + _mm256_extractf128_ps(v, 1);
  m = m + _mm_movehl_ps(m, m);
  return _mm_cvtss_f32(_mm_add_ss(m, _mm_movehdup_ps(m)));
}

/// Transposes a square of 8 rows of 8 32-bit lanes.
inline void Transpose(Register (&v)[8]) {
  __m256 a[8];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    a[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
    a[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
  }
  __m256 b[8];
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    b[i] = _mm256_shuffle_ps(a[i], a[i + 2], 0x44);
    b[i + 1] = _mm256_shuffle_ps(a[i], a[i + 2], 0xee);
    b[i + 2] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0x44);
    b[i + 3] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    v[k] = _mm256_permute2f128_ps(b[k], b[k + 4], 0x20);
    v[k + 4] = _mm256_permute2f128_ps(b[k], b[k + 4], 0x31);
  }
}

}  // namespace
}  // namespace attention
