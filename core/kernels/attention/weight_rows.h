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
  struct IsBetter {
    bool operator()(const Candidate& a, const Candidate& b) const {
      return a.weight > b.weight || (a.weight == b.weight && a.key < b.key);
    }
  };
  /// Of a row so far: its best top_k keys, in order if they are at most kMostOrdered, otherwise
  /// with others that are not dropped yet. Weights up to `least` are no candidates: it is 0 until
  /// top_k are known, then the top_k-th best weight known.
  struct Candidates {
    std::vector<Candidate> all;
    float least = 0;
  };

  static void DivideSorted(float sum, std::vector<Candidate>& sorted);
  float* RowOfWeights(int64_t row) const;
  void TakeCandidates(int64_t row, const KeyTile& keys);
  void Add(const Candidate& candidate, Candidates& best) const;
  void KeepBest(Candidates& best) const;

  const TileSetup& setup_;
  const FlashSequence& sequence_;
  const RowKeys& row_keys_;
  std::vector<Candidates> best_;  // [rows]
};

}  // namespace attention
