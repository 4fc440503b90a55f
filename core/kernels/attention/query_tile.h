// A sequence with its defaults filled in, and a tile of its query rows.
#pragma once

#include <cstdint>
#include <optional>

#include "core/kernels/attention/attention_plan.h"
#include "core/kernels/attention/options.h"
#include "core/kernels/attention/packed_layout.h"
#include "core/kernels/attention/rotary.h"
#include "core/kernels/attention/visibility.h"
#include "core/kernels/tile/prefetch.h"
#include "core/tensor/tensor.h"

namespace attention {

/// One sequence with every default filled in. AttentionSequence describes the shapes.
struct FlashSequence {
  HeadsView query;
  HeadsView key;    // without data when `cached` has the keys: extents and dtype alone
  HeadsView value;  // the same
  MutableHeadsView output;
  std::optional<CachedKeyValues> cached;
  /// The operand type of the products, a result of ComputeDtype.
  Dtype compute = Dtype::kF32;

  /// The options with `scale` and `query_offset` set, and no window or prefix larger than
  /// kFarthestKey.
  AttentionOptions options;

  /// The last keys to which every row attends, whatever the options are (core/layers/extra_keys.h).
  /// No row stands at them.
  int64_t extra_keys = 0;

  float* weights = nullptr;
  int64_t top_k = 0;
  float* top_weights = nullptr;
  int32_t* top_keys = nullptr;
  float* log_sum_exp = nullptr;

  int64_t kv_len() const { return key.tokens; }
  /// Borrows from this sequence.
  Visibility visibility() const { return {options, kv_len(), extra_keys}; }
  /// Returns the number of query heads that share a key/value head.
  int64_t group() const { return query.num_heads / key.num_heads; }
  bool wants_weights() const { return weights != nullptr || top_k > 0; }
};

/// The rotations of a sequence's positions, borrowed.
struct SequenceRotations {
  const RotaryTable* query = nullptr;  // row i: query row i
  const RotaryTable* key = nullptr;    // row j: key j
};

/// A query tile: rows [first_row, first_row + rows_per_head) of heads [first_head, first_head +
/// num_heads), which share a key/value head; rows() <= kQueryTile.
struct QueryTile {
  const AttentionPlan* plan = nullptr;
  const FlashSequence* sequence = nullptr;
  const SequenceRotations* rotations = nullptr;  // when the sequence is rotary
  PackedHead packed;
  /// Whether the tile packs its keys and values itself, a key tile at a time, since no other tile
  /// needs them. `packed` then has one page, of a key tile, in the memory of the thread.
  bool packs_keys = false;
  int64_t first_head = 0;
  int64_t num_heads = 1;
  int64_t first_row = 0;
  int64_t rows_per_head = 0;
  /// Whether AttendTile also writes the output. Linear attention computes its output otherwise.
  bool with_output = true;
  /// What its thread needs next, or null. Borrowed; AttendTile prefetches it.
  UpcomingRows* upcoming = nullptr;

  int64_t rows() const { return num_heads * rows_per_head; }
  int64_t kv_head() const { return first_head / sequence->group(); }
};

}  // namespace attention
