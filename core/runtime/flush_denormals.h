// Numbers too small for the full precision of f32.
#pragma once

#ifdef __SSE__
#include <xmmintrin.h>
#endif

namespace attention {

/// While an object of this class lives, its thread computes with 0 instead of *denormal* numbers:
/// those below 2^-126 (f32), which have fewer digits. On x86-64 one operation on them takes some
/// 150 cycles, so that a request of such numbers would take fifty times as long as others. Products
/// of bf16 count them as 0 in any case, as the processor defines them. ARM64 computes with them at
/// full speed: there it does nothing.
class FlushDenormals {
 public:
#ifdef __SSE__
  FlushDenormals() : before_(_mm_getcsr()) {
    constexpr unsigned kResults = 0x8000;   // FTZ
    constexpr unsigned kOperands = 0x0040;  // DAZ
    _mm_setcsr(before_ | kResults | kOperands);
  }
  ~FlushDenormals() { _mm_setcsr(before_); }
#else
  FlushDenormals() {}
  ~FlushDenormals() {}
#endif
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
#ifdef __SSE__
  const unsigned before_;
#endif
};

}  // namespace attention
