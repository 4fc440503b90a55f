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

/// The mean of a row, or 0 for a root-mean-square norm, and the mean square of its distances from
/// that; of the row's elements times `shrinking`.
struct Moments {
  float shrinking;
  float mean;
  float mean_square;
};

/// Returns the moments of a row whose squares overflow. A smaller row has the same norm.
inline Moments MomentsOfLargeRow(const float* row, int64_t cols, bool is_rms) {
  constexpr float kShrinking = 0x1p-80f;
  double sum = 0, sum_of_squares = 0;
  for (int64_t i = 0; i < cols && !is_rms; ++i) {
    sum += row[i] * kShrinking;
  }
  const double mean = sum / static_cast<double>(cols);
  for (int64_t i = 0; i < cols; ++i) {
    const double d = row[i] * kShrinking - mean;
    sum_of_squares += d * d;
  }
  return {kShrinking, static_cast<float>(mean),
          static_cast<float>(sum_of_squares / static_cast<double>(cols))};
}

inline Moments MomentsOf(const float* row, int64_t cols, bool is_rms) {
  const auto count = static_cast<float>(cols);
  const float mean = is_rms ? 0.0f : CenteredSum<false>(row, cols, 0.0f) / count;
  const float mean_square = CenteredSum<true>(row, cols, mean) / count;
  return mean_square > __FLT_MAX__ ? MomentsOfLargeRow(row, cols, is_rms)
                                   : Moments{1.0f, mean, mean_square};
}

template <typename E>
inline void NormRow(const NormTile& tile, int64_t r) {
  const float* __restrict row = tile.source + r * tile.source_stride;
  auto* target = static_cast<typename E::Type*>(tile.target) + r * tile.target_stride;
  const Moments moments = MomentsOf(row, tile.cols, tile.is_rms);
  const float shrinking = moments.shrinking, mean = moments.mean;
  const float factor =
      1.0f / __builtin_sqrtf(moments.mean_square + tile.epsilon * shrinking * shrinking);
  for (int64_t i = 0; i < tile.cols; ++i) {
    const float bias = tile.bias == nullptr ? 0.0f : tile.bias[i];
    const float residual =
        tile.residual == nullptr ? 0.0f : tile.residual[r * tile.residual_stride + i];
    target[i] = E::Write((row[i] * shrinking - mean) * factor * tile.weight[i] + bias + residual);
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
