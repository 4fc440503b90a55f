// Layer norm and root-mean-square norm of rows. The file of each instruction set includes it.
#pragma once

#include "core/kernels/tile/pack.h"
#include "core/kernels/tile/tile_kernels.h"
#include "core/kernels/tile/vec16.h"

namespace attention {
namespace {

/// Returns the sum of x - center over a row, or with kSquares of (x - center)^2.
template <bool kSquares>
inline float CenteredSum(const float* row, int64_t cols, float center) {
  Vec sum = {};
  for (int64_t i = 0; i < cols; i += 16) {
    const Vec x = i + 16 <= cols ? Load(row + i) : LoadFirst(row + i, cols - i, center);
    const Vec d = x - center;
    sum = kSquares ? MulAdd(d, d, sum) : sum + d;
  }
  return ReduceSum(sum);
}

template <typename E>
inline void NormRow(const NormTile& tile, int64_t r) {
  const float* __restrict row = tile.source + r * tile.source_stride;
  auto* target = static_cast<typename E::Type*>(tile.target) + r * tile.target_stride;
  const auto count = static_cast<float>(tile.cols);
  const float mean = tile.is_rms ? 0.0f : CenteredSum<false>(row, tile.cols, 0.0f) / count;
  const float mean_square = CenteredSum<true>(row, tile.cols, mean) / count;
  const float factor = 1.0f / __builtin_sqrtf(mean_square + tile.epsilon);
  for (int64_t i = 0; i < tile.cols; ++i) {
    const float bias = tile.bias == nullptr ? 0.0f : tile.bias[i];
    const float residual =
        tile.residual == nullptr ? 0.0f : tile.residual[r * tile.residual_stride + i];
    target[i] = E::Write((row[i] - mean) * factor * tile.weight[i] + bias + residual);
  }
}

inline void Norm(const NormTile& tile) {
  ForDtype(tile.target_dtype, [&tile](auto element) {
    for (int64_t r = 0; r < tile.rows; ++r) {
      NormRow<decltype(element)>(tile, r);
    }
  });
}

}  // namespace
}  // namespace attention
