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

/// Keys and values that were packed before.
struct CachedKeyValues {
  KeyValueStorage storage = KeyValueStorage::kF32;
  int64_t blocks_per_page = 0;
  int64_t num_kv_heads = 0;
  std::span<const HeadPage> pages;  // [pages, num_kv_heads]
};

/// One sequence with every default resolved. See AttentionSequence for the shapes, AttentionOptions
/// for what the rest does.
struct FlashSequence {
  HeadsView query;
  HeadsView key;    // without data when `cached` has the keys: extents and dtype alone
  HeadsView value;  // the same
  MutableHeadsView output;
  std::optional<CachedKeyValues> cached;
  /// Operand type of the products, a result of ComputeDtype.
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
  /// Query heads that share a key/value head.
  int64_t group() const { return query.num_heads / key.num_heads; }
  bool wants_weights() const { return weights != nullptr || top_k > 0; }
};

/// Rotations of a sequence's positions.
struct SequenceRotations {
  RotaryTable query;  // row i: query row i
  RotaryTable key;    // row j: key j
};

/// Rows [first_row, first_row + rows_per_head) of heads [first_head, first_head + num_heads), which
/// share a key/value head; rows() <= kQueryTile.
struct QueryTile {
  const AttentionPlan* plan = nullptr;
  const FlashSequence* sequence = nullptr;
  const SequenceRotations* rotations = nullptr;  // when the sequence is rotary
  PackedHead packed;
  int64_t first_head = 0;
  int64_t num_heads = 1;
  int64_t first_row = 0;
  int64_t rows_per_head = 0;
  /// Whether AttendTile writes the output, too: linear attention has a faster way.
  bool with_output = true;

  int64_t rows() const { return num_heads * rows_per_head; }
};

/// Writes the tile's rows of what the sequence asks for. `scratch`: TileScratchBytes.
void AttendTile(const QueryTile& tile, std::byte* scratch);

}  // namespace attention
