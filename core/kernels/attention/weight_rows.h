// Writes the attention weights of a tile: whole rows, or the largest weights of each row.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/kernels/attention/key_tile.h"
#include "core/kernels/attention/tile_state.h"

namespace attention {

/// Writes the weights of one query tile, one key tile after the other.
class WeightRows {
 public:
  /// Sets the rows of the tile to zero. Borrows both.
  WeightRows(const TileSetup& setup, const RowKeys& row_keys);

  /// Takes the weights of a key tile from its scores. They are not yet normalised.
  void Take(const KeyTile& keys);
  /// Completes row `row` after its last Take, and divides its weights by `sum`.
  void Finish(int64_t row, float sum);

 private:
  struct Candidate {
    float weight;
    int32_t key;
  };
  /// Orders the heap: its top is the first candidate to be replaced.
  static bool IsBetter(const Candidate& a, const Candidate& b) {
    return a.weight > b.weight || (a.weight == b.weight && a.key < b.key);
  }

  static void DivideSorted(float sum, std::vector<Candidate>& sorted);
  float* RowOfWeights(int64_t row) const;
  void TakeCandidates(int64_t row, const KeyTile& keys);

  const TileSetup& setup_;
  const FlashSequence& sequence_;
  const RowKeys& row_keys_;
  std::vector<std::vector<Candidate>> best_;  // [rows], at most top_k each
};

}  // namespace attention
