// The last step of a linear map: bias, activation, gate, residual. The file of each instruction set
// includes it.
#pragma once

#include "core/kernels/tile/tile_kernels.h"
#include "core/kernels/tile/vec16.h"

namespace attention {
namespace {

/// Returns erf(z) as z P(z^2) / Q(z^2), fitted by weighted least squares on [0, 3.93], with an
/// absolute error of 4e-7. Beyond 3.93 erf is 1 in f32.
inline Vec Erf(Vec z) {
  const Vec above = IfLess(z, Set(-3.93f), Set(-3.93f), z);
  const Vec c = IfLess(Set(3.93f), z, Set(3.93f), above);
  const Vec u = c * c;
  Vec p = MulAdd(u, Set(2.026966740231728e-06f), Set(0.00028750792262144387f));
  p = MulAdd(u, p, Set(0.0038844908121973276f));
  p = MulAdd(u, p, Set(0.053108733147382736f));
  p = MulAdd(u, p, Set(0.1931849867105484f));
  p = MulAdd(u, p, Set(1.128378987312317f));
  Vec q = MulAdd(u, Set(3.799202022491954e-05f), Set(0.001191423274576664f));
  q = MulAdd(u, q, Set(0.015204747207462788f));
  q = MulAdd(u, q, Set(0.11525192111730576f));
  q = MulAdd(u, q, Set(0.5045373439788818f));
  q = MulAdd(u, q, Set(1.0f));
  return c * p / q;
}

struct NoActivation {
  static Vec Of(Vec x) { return x; }
};
struct Relu {
  static Vec Of(Vec x) { return IfLess(x, Vec{}, Vec{}, x); }
};
struct Gelu {
  static Vec Of(Vec x) { return 0.5f * x * (1.0f + Erf(x * 0.7071067811865476f)); }
};
/// Uses 0.5 x (1 + tanh(u)) = x / (1 + exp(-2u)).
struct GeluTanh {
  static Vec Of(Vec x) {
    const Vec u = x * MulAdd(x * x, Set(0.044715f * 0.7978845608028654f), Set(0.7978845608028654f));
    return x / (1.0f + Exp(-2.0f * u));
  }
};
struct Silu {
  static Vec Of(Vec x) { return x / (1.0f + Exp(-x)); }
};

/// Returns 16 columns of the residual from `column` on; columns past its end are 0.
inline Vec LoadResidual(const FinishTile& tile, int64_t row, int64_t column) {
  const float* from = tile.residual + row * tile.residual_stride + column;
  const int64_t left = tile.cols - column;
  return left >= 16 ? Load(from) : LoadFirst(from, left < 0 ? 0 : left, 0.0f);
}

template <typename A>
inline void FinishAs(const FinishTile& tile) {
  for (int64_t r = 0; r < tile.rows; ++r) {
    float* row = tile.values + r * tile.stride;
    for (int64_t i = 0; i < kFinishColumns; i += 16) {
      Vec v = A::Of(Load(row + i) + Load(tile.bias + i));
      if (tile.factors != nullptr) {
        v *= Load(tile.factors + r * kFinishColumns + i) + Load(tile.factor_bias + i);
      }
      if (tile.residual != nullptr) {
        v += LoadResidual(tile, r, i);
      }
      Store(v + 0.0f, row + i);  // -0 + 0 is +0, as in StoreRow
    }
  }
}

inline void Finish(const FinishTile& tile) {
  switch (tile.activation) {
    case Activation::kNone:
      return FinishAs<NoActivation>(tile);
    case Activation::kRelu:
      return FinishAs<Relu>(tile);
    case Activation::kGelu:
      return FinishAs<Gelu>(tile);
    case Activation::kGeluTanh:
      return FinishAs<GeluTanh>(tile);
    case Activation::kSilu:
      return FinishAs<Silu>(tile);
  }
}

}  // namespace
}  // namespace attention
