// Where a tile's attention weights go: whole rows, or the largest of each.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/kernels/tile_state.h"

namespace attention {

class WeightRows {
 public:
  /// Clears the rows that the tile writes.
  explicit WeightRows(const TileState& state);

  /// The weights, not yet normalised, of the tile of keys at `first_key` are in the state's scores.
  void Take(int64_t first_key);
  /// All of row `row`'s were taken; `sum` normalises them.
  void Finish(int64_t row, float sum);

 private:
  struct Candidate {
    float weight;
    int32_t key;
  };
  /// Heap order: the top is the first to go.
  static bool IsBetter(const Candidate& a, const Candidate& b) {
    return a.weight > b.weight || (a.weight == b.weight && a.key < b.key);
  }

  float* RowOfWeights(int64_t row) const;
  void TakeCandidates(int64_t row, int64_t first_key);

  const TileState& s_;
  std::vector<std::vector<Candidate>> best_;  // [rows], at most top_k each
};

}  // namespace attention
