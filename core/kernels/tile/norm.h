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

/// The norm of x is (x * shrinking - mean) * factor, before weight and bias.
struct RowNorm {
  float shrinking;
  float mean;
  float factor;
};

/// Returns that of a row whose sum or squares exceed f32. A smaller row has the same norm.
inline RowNorm NormOfLargeRow(const float* row, int64_t cols, bool is_rms, float epsilon) {
  constexpr float kShrinking = 0x1p-80f;
  const auto count = static_cast<double>(cols);
  double sum = 0, sum_of_squares = 0;
  for (int64_t i = 0; i < cols && !is_rms; ++i) {
    sum += row[i] * kShrinking;
  }
  const double mean = sum / count;
  for (int64_t i = 0; i < cols; ++i) {
    const double d = row[i] * kShrinking - mean;
    sum_of_squares += d * d;
  }
  const double factor = 1 / __builtin_sqrt(sum_of_squares / count + epsilon * 0x1p-160);
  return {kShrinking, static_cast<float>(mean), static_cast<float>(factor)};
}

inline RowNorm NormOf(const float* row, int64_t cols, bool is_rms, float epsilon) {
  const auto count = static_cast<float>(cols);
  const float mean = is_rms ? 0.0f : CenteredSum<false>(row, cols, 0.0f) / count;
  const float mean_square = CenteredSum<true>(row, cols, mean) / count;
  return mean_square <= __FLT_MAX__
             ? RowNorm{1.0f, mean, 1.0f / __builtin_sqrtf(mean_square + epsilon)}
             : NormOfLargeRow(row, cols, is_rms, epsilon);
}

template <typename E>
inline void NormRow(const NormTile& tile, int64_t r) {
  const float* __restrict row = tile.source + r * tile.source_stride;
  auto* target = static_cast<typename E::Type*>(tile.target) + r * tile.target_stride;
  const RowNorm norm = NormOf(row, tile.cols, tile.is_rms, tile.epsilon);
  for (int64_t i = 0; i < tile.cols; ++i) {
    const float bias = tile.bias == nullptr ? 0.0f : tile.bias[i];
    const float residual =
        tile.residual == nullptr ? 0.0f : tile.residual[r * tile.residual_stride + i];
    target[i] = E::Write((row[i] * norm.shrinking - norm.mean) * norm.factor * tile.weight[i] +
                         bias + residual);
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
