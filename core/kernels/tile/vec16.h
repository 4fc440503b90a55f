// Sixteen floats: AVX-512 registers where the file is compiled for them, the compiler's generic
// vectors elsewhere. Everything has internal linkage: a file for a wider instruction set must not
// lend its code to the others.
#pragma once

#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include <cstdint>

namespace attention {
namespace {

typedef float Vec __attribute__((vector_size(64)));

inline Vec Set(float value) { return Vec{} + value; }

inline Vec Load(const float* source) {
  Vec v;
  __builtin_memcpy(&v, source, sizeof(v));
  return v;
}

inline void Store(Vec v, float* target) { __builtin_memcpy(target, &v, sizeof(v)); }

#ifdef __AVX512F__

inline __mmask16 FirstLanes(int64_t count) { return static_cast<__mmask16>((1u << count) - 1); }

/// The first `count` < 16 elements, `other` in the remaining lanes; reads no further.
inline Vec LoadFirst(const float* source, int64_t count, float other) {
  return _mm512_mask_loadu_ps(_mm512_set1_ps(other), FirstLanes(count), source);
}

/// v in the first `count` < 16 lanes, 0 in the others.
inline Vec KeepFirst(Vec v, int64_t count) { return _mm512_maskz_mov_ps(FirstLanes(count), v); }

/// NaN in `b` stays.
inline Vec Max(Vec a, Vec b) { return _mm512_max_ps(a, b); }

inline Vec MulAdd(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }

inline Vec Round(Vec v) { return _mm512_roundscale_ps(v, 8); }

/// v * 2^n for integral n; gradual underflow.
inline Vec ScaleByPow2(Vec v, Vec n) { return _mm512_scalef_ps(v, n); }

inline float ReduceMax(Vec v) { return _mm512_reduce_max_ps(v); }
inline float ReduceSum(Vec v) { return _mm512_reduce_add_ps(v); }

#else

inline Vec LoadFirst(const float* source, int64_t count, float other) {
  Vec v = Set(other);
  __builtin_memcpy(&v, source, count * sizeof(float));
  return v;
}

inline Vec KeepFirst(Vec v, int64_t count) {
  for (int64_t i = count; i < 16; ++i) {
    v[i] = 0;
  }
  return v;
}

inline Vec Max(Vec a, Vec b) { return a > b ? a : b; }

inline Vec MulAdd(Vec a, Vec b, Vec c) { return a * b + c; }

/// |v| < 2^22.
inline Vec Round(Vec v) { return (v + 0x1.8p23f) - 0x1.8p23f; }

/// Results below 2^-126 become 0.
inline Vec ScaleByPow2(Vec v, Vec n) {
  typedef int32_t IntVec __attribute__((vector_size(64)));
  const Vec clamped = n < -126.0f ? Set(-126.0f) : n;
  const IntVec bits = (__builtin_convertvector(clamped, IntVec) + 127) << 23;
  Vec power;
  __builtin_memcpy(&power, &bits, sizeof(power));
  return n < -126.0f ? Vec{} : v * power;
}

inline float ReduceMax(Vec v) {
  float result = v[0];
  for (int i = 1; i < 16; ++i) {
    result = v[i] > result ? v[i] : result;
  }
  return result;
}

inline float ReduceSum(Vec v) {
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) {
      v[i] += v[i + width];
    }
  }
  return v[0];
}

#endif

inline Vec Abs(Vec v) { return v < 0.0f ? -v : v; }

inline Vec Sqrt(Vec v) {
#ifdef __AVX512F__
  return _mm512_sqrt_ps(v);
#else
  for (int i = 0; i < 16; ++i) {
    v[i] = __builtin_sqrtf(v[i]);
  }
  return v;
#endif
}

/// 2^x for x in [-0.5, 0.5]: minimax polynomials (Remez, relative error 7.5e-8 and 7.5e-5), divided
/// by their constant term: softmax cancels a common factor, and 2^0 becomes exactly 1.
struct Exp2Degree5 {
  static Vec Polynomial(Vec x) {
    Vec p = MulAdd(x, Set(0.001327647129073739f), Set(0.009675540961325169f));
    p = MulAdd(x, p, Set(0.055507127195596695f));
    p = MulAdd(x, p, Set(0.24022118747234344f));
    p = MulAdd(x, p, Set(0.6931469440460205f));
    return MulAdd(x, p, Set(1.0f));
  }
};
struct Exp2Degree3 {
  static Vec Polynomial(Vec x) {
    Vec p = MulAdd(x, Set(0.05517563596367836f), Set(0.24262857437133789f));
    p = MulAdd(x, p, Set(0.6933108568191528f));
    return MulAdd(x, p, Set(1.0f));
  }
};

/// 2^t for t below 128; NaN stays NaN. REQUIRES: t is finite where compiled for AVX-512.
template <typename Exp2>
inline Vec PowerOfTwo(Vec t) {
#ifndef __AVX512F__
  t = t < -160.0f ? Set(-160.0f) : t;  // Round's range
#endif
  const Vec n = Round(t);
  return ScaleByPow2(Exp2::Polynomial(t - n), n);
}

/// The same for t of -infinity too.
template <typename Exp2>
inline Vec PowerOfTwoOrZero(Vec t) {
  return PowerOfTwo<Exp2>(t < -160.0f ? Set(-160.0f) : t);
}

inline Vec Exp(Vec x) {
  const Vec t = x * 1.4426950408889634f;
  return PowerOfTwoOrZero<Exp2Degree5>(t > 127.0f ? Set(127.0f) : t);
}

/// Relative error 2e-7: near zero by x + x^3 P(x^2) (interpolated at Chebyshev nodes of x^2 in
/// [0, 0.4]), elsewhere by 1 - 2 / (exp(2x) + 1).
inline Vec Tanh(Vec x) {
  const Vec z = x * x;
  Vec p = MulAdd(z, Set(0.0022695017978548997f), Set(-0.008323187008500099f));
  p = MulAdd(z, p, Set(0.021762503311038017f));
  p = MulAdd(z, p, Set(-0.0539584606885910f));
  p = MulAdd(z, p, Set(0.1333329975605011f));
  p = MulAdd(z, p, Set(-0.3333333432674408f));
  const Vec small = MulAdd(x * z, p, x);
  const Vec magnitude = 1.0f - 2.0f / (Exp(2.0f * Abs(x)) + 1.0f);
  const Vec large = x < 0.0f ? -magnitude : magnitude;
  return z < 0.4f ? small : (z >= 0.4f ? large : x);  // the last for NaN
}

}  // namespace
}  // namespace attention
