// The primitives of vec16.h and finish.h as functions over arrays, one table for each kind of Vec.
#pragma once

#include <cstdint>

namespace attention {

/// target[i] = f(source[i]) for i < count; nothing else is read or written.
using MapFloats = void (*)(const float* source, int64_t count, float* target);

struct VectorPrimitives {
  MapFloats exp;
  MapFloats power_of_two;                     // the degree that f32 takes
  MapFloats rough_power_of_two;               // the degree that bf16 takes
  MapFloats power_of_two_on_intel = nullptr;  // AVX-512 only, as the next
  MapFloats rough_power_of_two_on_intel = nullptr;
  MapFloats tanh;
  MapFloats erf;
  /// For a multiple of 16 of them: target[i] = the larger of a[i] and b[i], b[i] where one of them
  /// is NaN.
  void (*larger)(const float* a, const float* b, int64_t count, float* target);
  /// The largest of `count` numbers, -infinity of none.
  float (*max)(const float* source, int64_t count);
};

extern const VectorPrimitives kVectorPrimitivesNeon;  // on ARM64; the others on x86-64
extern const VectorPrimitives kVectorPrimitivesSse41;
extern const VectorPrimitives kVectorPrimitivesAvx2;
extern const VectorPrimitives kVectorPrimitivesAvx512;

}  // namespace attention
