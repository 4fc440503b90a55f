// VectorPrimitives of the instruction set that the including file is compiled for.
#pragma once

#include "core/kernels/tile/finish.h"
#include "core/kernels/tile/softmax.h"
#include "core/kernels/tile/vec16.h"
#include "tests/core/kernels/tile/primitives.h"

namespace attention {
namespace {

template <typename F>
inline void MapVectors(const float* source, int64_t count, float* target, const F& f) {
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    Store(f(Load(source + i)), target + i);
  }
  if (i < count) {
    float last[16];
    Store(KeepFirst(f(LoadFirst(source + i, count - i, 0.0f)), count - i), last);
    __builtin_memcpy(target + i, last, (count - i) * sizeof(float));
  }
}

constexpr VectorPrimitives MakePrimitives() {
  return {
      .exp = [](const float* source, int64_t count,
                float* target) { MapVectors(source, count, target, [](Vec x) { return Exp(x); }); },
      .power_of_two =
          [](const float* source, int64_t count, float* target) {
            MapVectors(source, count, target, [](Vec x) { return PowerOfTwo<Exp2Degree5>(x); });
          },
      .rough_power_of_two =
          [](const float* source, int64_t count, float* target) {
            MapVectors(source, count, target, [](Vec x) { return PowerOfTwo<Exp2Degree3>(x); });
          },
#ifdef __AVX512F__
      .power_of_two_on_intel =
          [](const float* source, int64_t count, float* target) {
            MapVectors(source, count, target,
                       [](Vec x) { return PowerOfTwo<OnIntel<Exp2Degree5>>(x); });
          },
      .rough_power_of_two_on_intel =
          [](const float* source, int64_t count, float* target) {
            MapVectors(source, count, target,
                       [](Vec x) { return PowerOfTwo<OnIntel<Exp2Degree3>>(x); });
          },
#endif
      .tanh =
          [](const float* source, int64_t count, float* target) {
            MapVectors(source, count, target, [](Vec x) { return Tanh(x); });
          },
      .erf = [](const float* source, int64_t count,
                float* target) { MapVectors(source, count, target, [](Vec x) { return Erf(x); }); },
      .larger =
          [](const float* a, const float* b, int64_t count, float* target) {
            for (int64_t i = 0; i < count; i += 16) {
              Store(Max(Load(a + i), Load(b + i)), target + i);
            }
          },
      .max = [](const float* source, int64_t count) { return MaxOf({source, count}); },
  };
}

}  // namespace
}  // namespace attention
