// Attention of one tile of query rows over one head's packed keys and values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/kernels/attention_plan.h"
#include "core/kernels/packed_head.h"
#include "core/kernels/rotary.h"
#include "core/kernels/variants.h"
#include "core/kernels/visibility.h"
#include "core/tensor/tensor.h"

namespace attention {

/// The packed keys and values of a cache.
struct CachedKeyValues {
  KeyValueStorage storage = KeyValueStorage::kF32;
  int64_t blocks_per_page = 0;
  int64_t num_kv_heads = 0;
  std::span<const HeadPage> pages;  // [pages, num_kv_heads]
};

/// One sequence with every default filled in. AttentionSequence describes the shapes,
/// AttentionOptions the options.
struct FlashSequence {
  HeadsView query;
  HeadsView key;    // without data when `cached` has the keys: extents and dtype alone
  HeadsView value;  // the same
  MutableHeadsView output;
  std::optional<CachedKeyValues> cached;
  /// The operand type of the products, a result of ComputeDtype.
  Dtype compute = Dtype::kF32;

  Visibility visibility;
  Similarity similarity = Similarity::kDotProduct;
  float scale = 1;
  double bandwidth = 0;
  float softcap = 0;
  std::span<const float> alibi_slopes;
  Bias bias;
  std::span<const float> sinks;
  std::optional<RmsNorm> query_norm;
  std::optional<RmsNorm> key_norm;
  std::optional<Rotary> rotary;

  float* weights = nullptr;
  int64_t top_k = 0;
  float* top_weights = nullptr;
  int32_t* top_keys = nullptr;
  float* log_sum_exp = nullptr;

  int64_t kv_len() const { return key.tokens; }
  /// The number of query heads that share a key/value head.
  int64_t group() const { return query.num_heads / key.num_heads; }
  bool wants_weights() const { return weights != nullptr || top_k > 0; }
};

/// The rotations of a sequence's positions.
struct SequenceRotations {
  RotaryTable query;  // row i: query row i
  RotaryTable key;    // row j: key j
};

/// A query tile: rows [first_row, first_row + rows_per_head) of heads [first_head, first_head +
/// num_heads), which share a key/value head; rows() <= kQueryTile.
struct QueryTile {
  const AttentionPlan* plan = nullptr;
  const FlashSequence* sequence = nullptr;
  const SequenceRotations* rotations = nullptr;  // when the sequence is rotary
  PackedHead packed;
  int64_t first_head = 0;
  int64_t num_heads = 1;
  int64_t first_row = 0;
  int64_t rows_per_head = 0;
  /// Whether AttendTile also writes the output. Linear attention computes its output otherwise.
  bool with_output = true;

  int64_t rows() const { return num_heads * rows_per_head; }
};

/// Computes the tile's rows of everything that the sequence requests. `scratch` has
/// TileScratchBytes.
void AttendTile(const QueryTile& tile, std::byte* scratch);

}  // namespace attention
