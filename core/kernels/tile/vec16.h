// Vec: sixteen floats in the vector registers of the instruction set for which the including file
// is compiled. They are one register of AVX-512, two of AVX2, or four of SSE4.1 or NEON. Everything
// here has internal linkage, so that the linker cannot use code for a wider instruction set in
// other files.
//
// Each of the two included headers defines Vec with + - * / and unary -, between vectors and with a
// float; Set, Load, Store, LoadFirst, KeepFirst, StoreBytes, IfLess, Max, MulAdd, Sqrt, Round,
// ScaleByPow2, First, ReduceMax, ReduceSum; and Register, kRegisterLanes and Transpose for code
// that moves whole registers. Load and Store need no alignment. Max(a, b) is b in lanes where one
// of them is NaN.
#pragma once

#ifdef __AVX512F__
#include "core/kernels/tile/vec16_avx512.h"
#else
#include "core/kernels/tile/vec16_pairs.h"
#endif

namespace attention {
namespace {

inline Vec Abs(Vec v) { return IfLess(v, Vec{}, -v, v); }

/// Two minimax polynomials (Remez) for 2^x with x in [-0.5, 0.5], of relative error 7.5e-8 and
/// 7.5e-5. They are divided by their constant term, so that 2^0 is exactly 1. Softmax cancels the
/// common factor.
struct Exp2Degree5 {
  static constexpr int kDegree = 5;
  static Vec Polynomial(Vec x) {
    Vec p = MulAdd(x, Set(0.001327647129073739f), Set(0.009675540961325169f));
    p = MulAdd(x, p, Set(0.055507127195596695f));
    p = MulAdd(x, p, Set(0.24022118747234344f));
    p = MulAdd(x, p, Set(0.6931469440460205f));
    return MulAdd(x, p, Set(1.0f));
  }
};
struct Exp2Degree3 {
  static constexpr int kDegree = 3;
  static Vec Polynomial(Vec x) {
    Vec p = MulAdd(x, Set(0.05517563596367836f), Set(0.24262857437133789f));
    p = MulAdd(x, p, Set(0.6933108568191528f));
    return MulAdd(x, p, Set(1.0f));
  }
};

/// The same polynomial, for a PowerOfTwo with the same bits in fewer micro-operations on Intel's
/// processors with AVX-512.
template <typename Exp2>
struct OnIntel : Exp2 {
  static constexpr bool kIsOnIntel = true;
};

/// Returns 2^t for t below 128, also 0 for -infinity; NaN stays NaN.
template <typename Exp2>
inline Vec PowerOfTwo(Vec t) {
#ifdef __AVX512F__
  if constexpr (requires { Exp2::kIsOnIntel; }) {
    const Vec x = SubtractRounded(t);
    return ScaleByPow2(Exp2::Polynomial(x), t - x);
  }
#endif
  const Vec n = Round(t);
  return ScaleByPow2(Exp2::Polynomial(t - n),
                     n);  // of -infinity: NaN times 2^-infinity, which is 0
}

inline Vec Exp(Vec x) {
  const Vec t = x * 1.4426950408889634f;
  return PowerOfTwo<Exp2Degree5>(IfLess(Set(127.0f), t, Set(127.0f), t));
}

/// Returns tanh with a relative error of 2e-7: for x^2 < 0.4 as x + x^3 P(x^2), interpolated at the
/// Chebyshev nodes of x^2 in [0, 0.4], elsewhere as 1 - 2 / (exp(2x) + 1). NaN stays NaN.
inline Vec Tanh(Vec x) {
  const Vec z = x * x;
  Vec p = MulAdd(z, Set(0.0022695017978548997f), Set(-0.008323187008500099f));
  p = MulAdd(z, p, Set(0.021762503311038017f));
  p = MulAdd(z, p, Set(-0.0539584606885910f));
  p = MulAdd(z, p, Set(0.1333329975605011f));
  p = MulAdd(z, p, Set(-0.3333333432674408f));
  const Vec small = MulAdd(x * z, p, x);
  const Vec magnitude = 1.0f - 2.0f / (Exp(2.0f * Abs(x)) + 1.0f);
  const Vec large = IfLess(x, Vec{}, -magnitude, magnitude);
  return IfLess(z, Set(0.4f), small, large);
}

}  // namespace
}  // namespace attention
