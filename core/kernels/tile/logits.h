// From raw scores to logits, and the similarities that are not softmax. Included by each
// instruction set's file.
#pragma once

#include "core/kernels/tile/tile_kernels.h"
#include "core/kernels/tile/vec16.h"

namespace attention {
namespace {

inline Vec LaneNumbers() {
  Vec v;
  for (int i = 0; i < 16; ++i) {
    v[i] = static_cast<float>(i);
  }
  return v;
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
      x += i + 16 <= tile.cols ? Load(terms.bias + i)
                               : LoadFirst(terms.bias + i, tile.cols - i, 0.0f);
    }
    Store(x, row + i);
  }
}

inline void Logits(const LogitTile& tile) {
  for (int64_t r = 0; r < tile.rows; ++r) {
    LogitsOfRow(tile, tile.terms[r], tile.scores + r * tile.stride);
  }
}

/// kRows rows at a time share each load of the keys.
template <int kRows>
inline void DistancesOfRows(const DistanceTile& tile, int64_t first_row) {
  const float* query = tile.query + first_row * tile.depth;
  Vec sums[kRows][4] = {};
  for (int64_t d = 0; d < tile.depth; ++d) {
    for (int k = 0; k < 4; ++k) {
      const Vec key = Load(tile.keys + d * kKeyBlock + 16 * k);
      for (int r = 0; r < kRows; ++r) {
        const Vec difference = key - query[r * tile.depth + d];
        sums[r][k] = MulAdd(difference, difference, sums[r][k]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int k = 0; k < 4; ++k) {
      Store(-sums[r][k], tile.scores + (first_row + r) * tile.stride + 16 * k);
    }
  }
}

inline void RegressionWeightsOfRow(const DistanceTile& tile, int64_t row) {
  const float* query = tile.query + row * tile.depth;
  double sums[kKeyBlock] = {};
  for (int64_t d = 0; d < tile.depth; ++d) {
    for (int64_t j = 0; j < kKeyBlock; ++j) {
      const double difference = static_cast<double>(tile.keys[d * kKeyBlock + j]) - query[d];
      sums[j] += difference * difference;
    }
  }
  float* scores = tile.scores + row * tile.stride;
  for (int64_t j = 0; j < kKeyBlock; ++j) {
    const double distance = __builtin_sqrt(sums[j]);
    scores[j] = tile.similarity == Similarity::kBox
                    ? (distance <= tile.bandwidth ? 1.0f : 0.0f)
                    : static_cast<float>(1.0 - distance / tile.bandwidth);
  }
}

inline void Distances(const DistanceTile& tile) {
  int64_t r = 0;
  if (tile.similarity != Similarity::kGaussian) {
    for (; r < tile.rows; ++r) {
      RegressionWeightsOfRow(tile, r);
    }
    return;
  }
  for (; r + 4 <= tile.rows; r += 4) {
    DistancesOfRows<4>(tile, r);
  }
  for (; r < tile.rows; ++r) {
    DistancesOfRows<1>(tile, r);
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
      weight = score > 0.0f ? score : Vec{};
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
