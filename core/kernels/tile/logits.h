// Logits from raw scores, and the similarities that are not softmax. The file of each instruction
// set includes it.
#pragma once

#include "core/kernels/tile/gaussian_score.h"
#include "core/kernels/tile/rows.h"
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

/// The number of dimensions in one chain of squares; the sums of the chains are added. Short chains
/// round less.
constexpr int64_t kSquareChain = 16;

/// The number of rows, and of vectors of keys, whose chains stay in registers.
constexpr int kSquareRows = sizeof(Register) == 64 ? 4 : 2;
constexpr int kSquareVecs = sizeof(Register) == 64 ? 4 : sizeof(Register) == 32 ? 2 : 1;

/// The dimensions of a chain of all keys of the block, f32 [kSquareChain][kKeyBlock].
struct ChainKeys {
  int64_t first;  // dimension
  const float* keys;
};

/// Adds the squares of a chain to |query - key|^2 of kRows rows from `row` on and some keys from
/// `col` on. Only squares are added, so nothing cancels, however far query and key are from 0.
template <int kRows>
inline void AddSquares(const DistanceTile& tile, const ChainKeys& chain, int64_t row, int64_t col) {
  const float* query = tile.query + row * tile.depth + chain.first;
  Vec sums[kRows][kSquareVecs] = {};
  for (int64_t d = 0; d < kSquareChain; ++d) {
    Vec keys[kSquareVecs];
#pragma GCC unroll 4
    for (int v = 0; v < kSquareVecs; ++v) {
      keys[v] = Load(chain.keys + d * kKeyBlock + col + 16 * v);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const Vec element = Set(query[r * tile.depth + d]);
#pragma GCC unroll 4
      for (int v = 0; v < kSquareVecs; ++v) {
        const Vec difference = keys[v] - element;
        sums[r][v] = MulAdd(difference, difference, sums[r][v]);
      }
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    float* scores = tile.scores + (row + r) * tile.stride + col;
#pragma GCC unroll 4
    for (int v = 0; v < kSquareVecs; ++v) {
      float* sum = scores + 16 * v;
      Store(chain.first == 0 ? sums[r][v] : Load(sum) + sums[r][v], sum);
    }
  }
}

/// Writes |query - key|^2 to the scores.
inline void SquaredDistances(const DistanceTile& tile) {
  alignas(64) float widened[kSquareChain * kKeyBlock];
  for (int64_t first = 0; first < tile.depth; first += kSquareChain) {
    ChainKeys chain{first, widened};
    if (tile.keys_dtype == Dtype::kBf16) {
      Expand({.source = static_cast<const uint16_t*>(tile.keys) + first * kKeyBlock,
              .rows = kSquareChain,
              .cols = kKeyBlock,
              .target = widened});
    } else {
      chain.keys = static_cast<const float*>(tile.keys) + first * kKeyBlock;
    }
    for (int64_t col = 0; col < kKeyBlock; col += 16 * kSquareVecs) {
      int64_t r = 0;
      for (; r + kSquareRows <= tile.rows; r += kSquareRows) {
        AddSquares<kSquareRows>(tile, chain, r, col);
      }
      for (; r < tile.rows; ++r) {
        AddSquares<1>(tile, chain, r, col);
      }
    }
  }
}

/// The squared distances from `begin` to `end` are computed in double precision instead.
struct ExactSquares {
  float begin;
  float end;

  // Tests without branches, so that loops become vector code.
  bool Holds(float square) const {
    return (static_cast<int>(begin <= square) & static_cast<int>(square <= end)) != 0;
  }
};

/// Returns the range in which f32 is not exact enough. The error of a square is less than 2^-18 of
/// it (depth 512), and usually 4e-8 (depth 64). With such an error a distance near the bandwidth
/// may be on the wrong side of a box's edge, and a triangular weight below 1/8 has few digits. For
/// kGaussian it has what GaussianScore makes smaller, since f32 may not hold it. Without
/// HasOrdinarySquares it has every square.
inline ExactSquares ExactSquaresOf(const DistanceTile& tile) {
  if (!HasOrdinarySquares(tile.bandwidth)) {
    return {0, __builtin_inff()};
  }
  if (tile.similarity == Similarity::kGaussian) {
    return {static_cast<float>(kLargestExponent), __builtin_inff()};
  }
  const auto edge = static_cast<float>(tile.bandwidth * tile.bandwidth);
  const float near = tile.similarity == Similarity::kBox ? 1 - 0x1p-17f : 0.875f * 0.875f;
  return {edge * near, edge * (1 + 0x1p-17f)};
}

/// Replaces the squared distances of a row by its scores, in f32.
inline void ScoresOfSquares(const DistanceTile& tile, float* row) {
  const Vec edge = Set(static_cast<float>(tile.bandwidth * tile.bandwidth));
  for (int64_t i = 0; i < kKeyBlock; i += 16) {
    const Vec square = Load(row + i);
    Store(tile.similarity == Similarity::kGaussian ? -square
          : tile.similarity == Similarity::kBox    ? IfLess(square, edge, Set(1.0f), Vec{})
                                                   : 1.0f - Sqrt(square / edge),
          row + i);
  }
}

/// The number of keys whose sums, for two rows, stay in registers.
constexpr int64_t kExactKeys = 2 * kRegisterLanes;

/// Returns dimension `d` of key `j` of a packed block.
inline float KeyElement(const float* keys, int64_t d, int64_t j) { return keys[d * kKeyBlock + j]; }
inline float KeyElement(const uint32_t* bf16_pairs, int64_t d, int64_t j) {
  return BitsToFloat(bf16_pairs[d / 2 * kKeyBlock + j] >> (d % 2 * 16) << 16);
}

/// Computes the scores of two rows, which may be the same, from differences in double precision.
/// `keys` are floats or bf16 pairs.
template <typename T>
inline void ExactScores(const DistanceTile& tile, const T* keys, const int64_t (&rows)[2],
                        float (&scores)[2][kKeyBlock]) {
  const float* first = tile.query + rows[0] * tile.depth;
  const float* second = tile.query + rows[1] * tile.depth;
  const double divisor = HasOrdinarySquares(tile.bandwidth) ? 1 : tile.bandwidth;
  for (int64_t col = 0; col < kKeyBlock; col += kExactKeys) {
    double squares[2][kExactKeys] = {};
    for (int64_t d = 0; d < tile.depth; ++d) {
      for (int64_t j = 0; j < kExactKeys; ++j) {
        const double key = KeyElement(keys, d, col + j);
        squares[0][j] += (key - first[d]) * (key - first[d]);
        squares[1][j] += (key - second[d]) * (key - second[d]);
      }
    }
    for (int64_t r = 0; r < 2; ++r) {
      for (int64_t j = 0; j < kExactKeys; ++j) {
        const double square = squares[r][j];
        const double distance = __builtin_sqrt(square);
        scores[r][col + j] = tile.similarity == Similarity::kGaussian
                                 ? GaussianScore(square, divisor)
                             : tile.similarity == Similarity::kBox
                                 ? (distance <= tile.bandwidth ? 1.0f : 0.0f)
                                 : static_cast<float>(1.0 - distance / tile.bandwidth);
      }
    }
  }
}

/// Replaces the squared distances of two rows, which may be the same, by their scores. A square
/// alone decides whether its score is computed exactly, so that a score depends on nothing but its
/// query and key.
inline void FinishDistances(const DistanceTile& tile, const ExactSquares& exact,
                            const int64_t (&rows)[2]) {
  int32_t is_exact[2][kKeyBlock];
  int32_t any = 0;
  for (int64_t r = 0; r < 2; ++r) {
    const float* row = tile.scores + rows[r] * tile.stride;
    for (int64_t j = 0; j < kKeyBlock; ++j) {
      is_exact[r][j] = exact.Holds(row[j]) ? 1 : 0;
      any |= is_exact[r][j];
    }
  }
  for (int64_t r = rows[0]; r <= rows[1]; ++r) {
    ScoresOfSquares(tile, tile.scores + r * tile.stride);
  }
  if (any == 0) {
    return;
  }
  float scores[2][kKeyBlock];
  if (tile.keys_dtype == Dtype::kBf16) {
    ExactScores(tile, static_cast<const uint32_t*>(tile.keys), rows, scores);
  } else {
    ExactScores(tile, static_cast<const float*>(tile.keys), rows, scores);
  }
  for (int64_t r = 0; r < 2; ++r) {
    float* row = tile.scores + rows[r] * tile.stride;
    for (int64_t j = 0; j < kKeyBlock; ++j) {
      row[j] = is_exact[r][j] != 0 ? scores[r][j] : row[j];
    }
  }
}

inline void Distances(const DistanceTile& tile) {
  const ExactSquares exact = ExactSquaresOf(tile);
  SquaredDistances(tile);
  for (int64_t r = 0; r < tile.rows; r += 2) {
    FinishDistances(tile, exact, {r, r + 1 < tile.rows ? r + 1 : r});
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
      weight = IfLess(score, Vec{}, Vec{}, score);  // NaN stays
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
