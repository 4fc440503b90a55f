// Vec on AVX-512: one register.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace attention {
namespace {

typedef float Vec __attribute__((vector_size(64)));
using Register = Vec;
typedef int32_t Integers __attribute__((vector_size(64)));
constexpr int64_t kRegisterLanes = 16;

inline Vec Set(float value) { return Vec{} + value; }

inline Vec Load(const float* source) {
  Vec v;
  __builtin_memcpy(&v, source, sizeof(v));
  return v;
}

inline void Store(Vec v, float* target) { __builtin_memcpy(target, &v, sizeof(v)); }

inline Register SetRegister(float value) { return Set(value); }
inline Register LoadRegister(const float* source) { return Load(source); }
inline void StoreRegister(Register v, float* target) { Store(v, target); }
/// Loads 16-bit integers into 32-bit lanes.
inline Integers LoadHalves(const uint16_t* source) {
  __m256i halves;
  __builtin_memcpy(&halves, source, sizeof(halves));
  return __builtin_bit_cast(Integers, _mm512_cvtepu16_epi32(halves));
}
/// Loads f16 values as f32.
inline Register LoadF16(const uint16_t* source) {
  __m256i halves;
  __builtin_memcpy(&halves, source, sizeof(halves));
  return _mm512_cvtph_ps(halves);
}

inline __mmask16 FirstLanes(int64_t count) { return static_cast<__mmask16>((1u << count) - 1); }

/// Loads the first `count` < 16 elements and reads no further; the remaining lanes are `other`.
inline Vec LoadFirst(const float* source, int64_t count, float other) {
  return _mm512_mask_loadu_ps(_mm512_set1_ps(other), FirstLanes(count), source);
}

/// Returns v in the first `count` < 16 lanes, and 0 in the others.
inline Vec KeepFirst(Vec v, int64_t count) { return _mm512_maskz_mov_ps(FirstLanes(count), v); }

/// Returns `yes` in the lanes where a < b, and `no` in the others, also where one is NaN.
inline Vec IfLess(Vec a, Vec b, Vec yes, Vec no) { return a < b ? yes : no; }

/// Returns the larger of each lane, and `b` where one of them is NaN.
inline Vec Max(Vec a, Vec b) { return _mm512_max_ps(a, b); }

inline Vec MulAdd(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }

inline Vec Sqrt(Vec v) { return _mm512_sqrt_ps(v); }

/// Rounds to the nearest integer, ties to even.
inline Vec Round(Vec v) { return _mm512_roundscale_ps(v, 8); }

/// Returns v - Round(v), and 0 for infinity. On Intel's processors that is one micro-operation,
/// where Round alone takes two.
inline Vec SubtractRounded(Vec v) { return _mm512_reduce_ps(v, 8); }

/// Returns v * 2^n for integral n, with gradual underflow; 0 for NaN and an n of -infinity (Intel's
/// manual, special cases of VSCALEFPS).
inline Vec ScaleByPow2(Vec v, Vec n) { return _mm512_scalef_ps(v, n); }

/// Stores numbers from 0 to 255, rounded down, as bytes.
inline void StoreBytes(Vec v, uint8_t* target) {
  const __m128i bytes = _mm512_cvtusepi32_epi8(_mm512_cvttps_epu32(v));
  __builtin_memcpy(target, &bytes, sizeof(bytes));
}

#ifdef __AVX512BF16__
/// Store v, or v and w one after the other, rounded to bf16.
inline void StoreBf16(Vec v, uint16_t* target) {
  const __m256bh rounded = _mm512_cvtneps_pbh(v);
  __builtin_memcpy(target, &rounded, sizeof(rounded));
}
inline void StoreTwoBf16(Vec v, Vec w, uint16_t* target) {
  const __m512bh rounded = _mm512_cvtne2ps_pbh(w, v);
  __builtin_memcpy(target, &rounded, sizeof(rounded));
}
/// Stores the first `count` < 16 lanes, rounded to bf16, and writes nothing behind them.
inline void StoreFirstBf16(Vec v, int64_t count, uint16_t* target) {
  const __m256bh rounded = _mm512_cvtneps_pbh(v);
  __m256i bits;
  __builtin_memcpy(&bits, &rounded, sizeof(bits));
  _mm256_mask_storeu_epi16(target, FirstLanes(count), bits);
}
#endif

/// Returns lane 0.
inline float First(Vec v) { return v[0]; }

inline float ReduceMax(Vec v) { return _mm512_reduce_max_ps(v); }
inline float ReduceSum(Vec v) { return _mm512_reduce_add_ps(v); }

/// Transposes a square of 16 rows of 16 32-bit lanes.
inline void Transpose(Register (&v)[16]) {
  __m512 a[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    a[i] = _mm512_unpacklo_ps(v[i], v[i + 1]);
    a[i + 1] = _mm512_unpackhi_ps(v[i], v[i + 1]);
  }
  __m512 b[16];
  for (int i = 0; i < 16; i += 4) {
    for (int k = 0; k < 2; ++k) {
      b[i + 2 * k] = _mm512_shuffle_ps(a[i + k], a[i + k + 2], 0x44);
      b[i + 2 * k + 1] = _mm512_shuffle_ps(a[i + k], a[i + k + 2], 0xee);
    }
  }
  for (int k = 0; k < 4; ++k) {
    const __m512 lo = _mm512_shuffle_f32x4(b[k], b[4 + k], 0x88);
    const __m512 hi = _mm512_shuffle_f32x4(b[k], b[4 + k], 0xdd);
    const __m512 lo2 = _mm512_shuffle_f32x4(b[8 + k], b[12 + k], 0x88);
    const __m512 hi2 = _mm512_shuffle_f32x4(b[8 + k], b[12 + k], 0xdd);
    v[k] = _mm512_shuffle_f32x4(lo, lo2, 0x88);
    v[8 + k] = _mm512_shuffle_f32x4(lo, lo2, 0xdd);
    v[4 + k] = _mm512_shuffle_f32x4(hi, hi2, 0x88);
    v[12 + k] = _mm512_shuffle_f32x4(hi, hi2, 0xdd);
  }
}

}  // namespace
}  // namespace attention
