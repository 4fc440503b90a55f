// Logits from raw scores, and the similarities that are not softmax. The file of each instruction
// set includes it.
#pragma once

#include "core/kernels/tile/tile_kernels.h"
#include "core/kernels/tile/vec16.h"

namespace attention {
namespace {

/// Returns 0, 1, ..., 15.
inline Vec LaneNumbers() {
  alignas(64) static constexpr float kNumbers[16] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                     8, 9, 10, 11, 12, 13, 14, 15};
  return Load(kNumbers);
}

inline void LogitsOfRow(const LogitTile& tile, const LogitRow& terms, float* row) {
  const Vec lanes = LaneNumbers();
  for (int64_t i = 0; i < tile.cols; i += 16) {
    Vec x = Load(row + i) * tile.scale;
    if (tile.softcap > 0) {
      x = tile.softcap * Tanh(x / tile.softcap);
    }
    if (terms.alibi_slope != 0) {
      const Vec distance = Abs((terms.first_distance - static_cast<float>(i)) - lanes);
      x = MulAdd(Set(-terms.alibi_slope), distance, x);
    }
    if (terms.bias != nullptr) {
      const Vec bias = i + 16 <= tile.cols ? Load(terms.bias + i)
                                           : LoadFirst(terms.bias + i, tile.cols - i, 0.0f);
      x = IfLess(bias, Set(-__FLT_MAX__), bias, x + bias);  // -infinity stays, whatever x is
    }
    Store(x, row + i);
  }
}

inline void Logits(const LogitTile& tile) {
  for (int64_t r = 0; r < tile.rows; ++r) {
    LogitsOfRow(tile, tile.terms[r], tile.scores + r * tile.stride);
  }
}

inline float RegressionScore(const DistanceTile& tile, double squared_distance) {
  if (tile.similarity == Similarity::kGaussian) {
    return static_cast<float>(-squared_distance);
  }
  const double distance = __builtin_sqrt(squared_distance);
  return tile.similarity == Similarity::kBox ? (distance <= tile.bandwidth ? 1.0f : 0.0f)
                                             : static_cast<float>(1.0 - distance / tile.bandwidth);
}

inline void Distances(const DistanceTile& tile) {
  for (int64_t r = 0; r < tile.rows; ++r) {
    const float* query = tile.query + r * tile.depth;
    double sums[kKeyBlock] = {};
    for (int64_t d = 0; d < tile.depth; ++d) {
      for (int64_t j = 0; j < kKeyBlock; ++j) {
        const double difference = static_cast<double>(tile.keys[d * kKeyBlock + j]) - query[d];
        sums[j] += difference * difference;
      }
    }
    for (int64_t j = 0; j < kKeyBlock; ++j) {
      tile.scores[r * tile.stride + j] = RegressionScore(tile, sums[j]);
    }
  }
}

inline void WeighRow(const WeightTile& tile, int64_t r) {
  float* row = tile.scores + r * tile.stride;
  const int64_t visible = tile.visible_end[r];
  Vec sum = {};
  for (int64_t i = 0; i < tile.cols; i += 16) {
    Vec weight = {};
    if (i < visible) {
      const Vec score = Load(row + i);
      weight = IfLess(Vec{}, score, score, Vec{});
      weight = i + 16 <= visible ? weight : KeepFirst(weight, visible - i);
    }
    sum += weight;
    Store(weight, row + i);
  }
  tile.row_sum[r] += ReduceSum(sum);
}

inline void Weights(const WeightTile& tile) {
  for (int64_t r = 0; r < tile.rows; ++r) {
    WeighRow(tile, r);
  }
}

}  // namespace
}  // namespace attention
