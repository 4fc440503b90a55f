// Linear attention by prefix sums (Katharopoulos et al. 2020, "Transformers are RNNs"):
//   output_i = f(q_i) S_i / f(q_i) . z_i,  f(x) = elu(x) + 1,
//   S_i = sum over visible j of f(k_j) v_j^T,  z_i = sum over visible j of f(k_j).
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/kernels/attention/key_tile.h"
#include "core/kernels/attention/query_tile.h"
#include "core/kernels/attention/tile_state.h"
#include "core/tensor/tensor.h"

namespace attention {

/// The sums over the first key blocks of a key/value head of one sequence.
class LinearState {
 public:
  /// Returns the size of the sums, a multiple of 64.
  static int64_t SizeBytes(const AttentionPlan& plan) {
    return plan.depth() * (plan.value_width() + 1) * static_cast<int64_t>(sizeof(float));
  }
  /// Borrows `memory` of SizeBytes, aligned to 64 bytes, and sets the sums there to 0.
  LinearState(const AttentionPlan& plan, std::byte* memory);

  /// Writes the outputs of rows [tile.first_row, tile.first_row + rows) of heads [tile.first_head,
  /// tile.first_head + num_heads), for any number of rows. REQUIRES: the keys are packed after
  /// their feature map; rows come in order from call to call, and one call ends before the next
  /// begins, which stages guarantee. `scratch` is as for AttendTile.
  void Attend(const QueryTile& tile, int64_t rows, int64_t num_heads, std::byte* scratch);

 private:
  void Advance(const QueryTile& tile, int64_t blocks);
  void AddBlock(const float* keys, const float* values, int64_t head_dim);
  void AttendRows(const QueryTile& tile, std::byte* scratch) const;
  static void AddKeys(const TileSetup& setup, const TileBuffers& buffers, int64_t first_key,
                      const int64_t* ends, float* row_sum);

  const AttentionPlan& plan_;
  int64_t num_blocks_ = 0;  // key blocks in the sums
  float* sums_;             // [depth, value_width], then [depth]
};

}  // namespace attention
