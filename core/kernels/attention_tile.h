// Attention of one tile of query rows over one head's packed keys and values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/kernels/attention_plan.h"
#include "core/tensor/tensor.h"

namespace attention {

/// One sequence with every default resolved. See AttentionSequence for the shapes.
struct FlashSequence {
  HeadsView query;
  HeadsView key;
  HeadsView value;
  MutableHeadsView output;
  float* weights = nullptr;
  float scale = 1;
  bool causal = false;
  int64_t query_offset = 0;

  /// Keys [0, VisibleEnd(row)) are seen by query row `row`.
  int64_t VisibleEnd(int64_t row) const {
    if (!causal) {
      return key.tokens;
    }
    const int64_t end = query_offset + row + 1;
    return end < 0 ? 0 : (end < key.tokens ? end : key.tokens);
  }
};

/// Packed keys and values of one key/value head.
struct PackedHead {
  std::byte* keys = nullptr;             // blocks of plan.key_block_elements()
  std::byte* values = nullptr;           // blocks of plan.value_block_elements()
  uint8_t* values_are_finite = nullptr;  // one per block
};

/// Rows [first_row, first_row + rows) of one query head; rows <= kQueryTile.
struct QueryTile {
  const FlashSequence* sequence = nullptr;
  PackedHead packed;
  int64_t head = 0;
  int64_t first_row = 0;
  int64_t rows = 0;
};

/// Bytes of 64-byte aligned scratch memory that the functions below need.
size_t TileScratchBytes(const AttentionPlan& plan);

/// Writes the tile's output rows.
void AttendTile(const AttentionPlan& plan, const QueryTile& tile, std::byte* scratch);

/// Writes the tile's rows of the sequence's attention weights.
void WeighTile(const AttentionPlan& plan, const QueryTile& tile, std::byte* scratch);

}  // namespace attention
