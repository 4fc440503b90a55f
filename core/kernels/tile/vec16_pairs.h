// Vec on AVX2, SSE4.1 and NEON: a pair of halves, where a half is a register or a pair of
// registers.
#pragma once

#ifdef __AVX2__
#include "core/kernels/tile/register_avx2.h"
#elif defined(__ARM_NEON)
#include "core/kernels/tile/register_neon.h"
#else
#include "core/kernels/tile/register_sse41.h"
#endif

#include <cstdint>

namespace attention {
namespace {

template <typename Half>
struct Pair {
  Half lo;
  Half hi;
};

template <typename H>
inline Pair<H> operator+(Pair<H> a, Pair<H> b) {
  return {a.lo + b.lo, a.hi + b.hi};
}
template <typename H>
inline Pair<H> operator-(Pair<H> a, Pair<H> b) {
  return {a.lo - b.lo, a.hi - b.hi};
}
template <typename H>
inline Pair<H> operator*(Pair<H> a, Pair<H> b) {
  return {a.lo * b.lo, a.hi * b.hi};
}
template <typename H>
inline Pair<H> operator/(Pair<H> a, Pair<H> b) {
  return {a.lo / b.lo, a.hi / b.hi};
}
template <typename H>
inline Pair<H> operator-(Pair<H> a) {
  return {-a.lo, -a.hi};
}

/// Returns `yes` in the lanes where a < b, and `no` in the others, also where one is NaN.
template <typename H>
inline Pair<H> IfLess(Pair<H> a, Pair<H> b, Pair<H> yes, Pair<H> no) {
  return {IfLess(a.lo, b.lo, yes.lo, no.lo), IfLess(a.hi, b.hi, yes.hi, no.hi)};
}

/// Returns the larger of each lane, and `b` where one of them is NaN.
template <typename H>
inline Pair<H> Max(Pair<H> a, Pair<H> b) {
  return {Max(a.lo, b.lo), Max(a.hi, b.hi)};
}

template <typename H>
inline Pair<H> MulAdd(Pair<H> a, Pair<H> b, Pair<H> c) {
  return {MulAdd(a.lo, b.lo, c.lo), MulAdd(a.hi, b.hi, c.hi)};
}

template <typename H>
inline Pair<H> Sqrt(Pair<H> v) {
  return {Sqrt(v.lo), Sqrt(v.hi)};
}

/// Rounds to the nearest integer, ties to even.
template <typename H>
inline Pair<H> Round(Pair<H> v) {
  return {Round(v.lo), Round(v.hi)};
}

/// Returns v * 2^n for v in [0.5, 2) or NaN and integral n below 128; 0 for n below -125, whatever
/// v is.
template <typename H>
inline Pair<H> ScaleByPow2(Pair<H> v, Pair<H> n) {
  return {ScaleByPow2(v.lo, n.lo), ScaleByPow2(v.hi, n.hi)};
}

/// Returns lane 0.
template <typename H>
inline float First(Pair<H> v) {
  return First(v.lo);
}

template <typename H>
inline float ReduceMax(Pair<H> v) {
  return ReduceMax(Max(v.lo, v.hi));
}
template <typename H>
inline float ReduceSum(Pair<H> v) {
  return ReduceSum(v.lo + v.hi);
}

/// Stores numbers from 0 to 255, rounded down, as bytes.
template <typename H>
inline void StoreBytes(Pair<H> v, uint8_t* target) {
  StoreBytes(v.lo, target);
  StoreBytes(v.hi, target + sizeof(H) / sizeof(float));
}

#ifdef __AVX2__

using Vec = Pair<Register>;

inline Vec Set(float value) { return {SetRegister(value), SetRegister(value)}; }
inline Vec Load(const float* source) { return {LoadRegister(source), LoadRegister(source + 8)}; }
inline void Store(Vec v, float* target) {
  StoreRegister(v.lo, target);
  StoreRegister(v.hi, target + 8);
}

#else

using Vec = Pair<Pair<Register> >;

inline Vec Set(float value) {
  const Register r = SetRegister(value);
  return {{r, r}, {r, r}};
}
inline Vec Load(const float* source) {
  return {{LoadRegister(source), LoadRegister(source + 4)},
          {LoadRegister(source + 8), LoadRegister(source + 12)}};
}
inline void Store(Vec v, float* target) {
  StoreRegister(v.lo.lo, target);
  StoreRegister(v.lo.hi, target + 4);
  StoreRegister(v.hi.lo, target + 8);
  StoreRegister(v.hi.hi, target + 12);
}

#endif

inline Vec operator+(Vec a, float b) { return a + Set(b); }
inline Vec operator+(float a, Vec b) { return Set(a) + b; }
inline Vec operator-(Vec a, float b) { return a - Set(b); }
inline Vec operator-(float a, Vec b) { return Set(a) - b; }
inline Vec operator*(Vec a, float b) { return a * Set(b); }
inline Vec operator*(float a, Vec b) { return Set(a) * b; }
inline Vec operator/(Vec a, float b) { return a / Set(b); }
inline Vec operator/(float a, Vec b) { return Set(a) / b; }
inline Vec& operator+=(Vec& a, Vec b) { return a = a + b; }
inline Vec& operator*=(Vec& a, Vec b) { return a = a * b; }

/// Loads the first `count` < 16 elements and reads no further; the remaining lanes are `other`.
#ifdef __AVX2__
inline Vec LoadFirst(const float* source, int64_t count, float other) {
  return {LoadFirstOfRegister(source, count, other),
          LoadFirstOfRegister(source + 8, count - 8, other)};
}
#else
inline Vec LoadFirst(const float* source, int64_t count, float other) {
  float values[16];
  for (int64_t i = 0; i < 16; ++i) {
    values[i] = i < count ? source[i] : other;
  }
  return Load(values);
}
#endif

/// Returns v in the first `count` < 16 lanes, and 0 in the others.
inline Vec KeepFirst(Vec v, int64_t count) {
  alignas(64) static constexpr float kLanes[16] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                   8, 9, 10, 11, 12, 13, 14, 15};
  return IfLess(Load(kLanes), Set(static_cast<float>(count)), v, Vec{});
}

}  // namespace
}  // namespace attention
