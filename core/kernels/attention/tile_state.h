// What a thread works on while it holds a tile of query rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/kernels/attention/attention_plan.h"
#include "core/kernels/attention/query_tile.h"
#include "core/kernels/attention/visibility.h"
#include "core/kernels/tile/tile_kernels.h"

namespace attention {

/// Rows of the tile, and the columns [begin, end) of the current tile of keys that are computed for
/// all of them.
struct Block {
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

/// More rows than this are the ukernels' business.
inline constexpr int64_t kStreamedRows = kMostStreamedRows;

struct TileState {
  TileState(const QueryTile& t, std::byte* scratch);

  bool bf16() const { return plan.compute() == Dtype::kBf16; }
  /// Products of 8-bit integers.
  bool int8() const;
  /// Keys are stored otherwise than they are multiplied.
  bool expands() const;
  int64_t HeadOf(int64_t row) const { return tile.first_head + row / tile.rows_per_head; }
  int64_t RowOf(int64_t row) const { return tile.first_row + row % tile.rows_per_head; }

  const HeadPage& PageOf(int64_t key) const {
    return tile.packed
        .pages[key / kKeyBlock / tile.packed.blocks_per_page * tile.packed.page_stride];
  }
  /// Keys of the page that come before `key`.
  int64_t KeysBefore(int64_t key) const {
    return key / kKeyBlock % tile.packed.blocks_per_page * kKeyBlock + key % kKeyBlock;
  }
  /// Packed memory at `key`, a multiple of kKeyBlock; of values, up to the next multiple of
  /// kSumChunk is contiguous.
  const std::byte* Keys(int64_t key) const;
  const std::byte* Values(int64_t key) const;
  bool ValuesAreFinite(int64_t key) const {
    return PageOf(key).values_are_finite[KeysBefore(key) / kKeyBlock] != 0;
  }

  const std::byte* QueryRow(int64_t row) const {
    return static_cast<std::byte*>(query) + row * plan.depth() * element_bytes;
  }
  const std::byte* ProbabilityRow(int64_t row) const {
    const void* first = bf16() ? static_cast<const void*>(probabilities) : scores;
    return static_cast<const std::byte*>(first) + row * kScoreStride * element_bytes;
  }
  float* AccumulatorRow(int64_t row) const { return accumulator + row * plan.value_width(); }

  const AttentionPlan& plan;
  const QueryTile& tile;
  const FlashSequence& sequence;
  const TileKernels& kernels;
  int64_t rows;
  int64_t element_bytes;
  /// Score times this is the exponent of 2.
  float scale_log2e;
  /// Few rows: products are streamed, and several tiles of keys are scored before their values are
  /// read, so that memory is read in long runs.
  bool streams;
  /// Keys and values stored as bf16 are multiplied as f32 while they are streamed.
  bool widens;
  int64_t tiles_ahead() const { return streams && !expands() ? kQueryTile / kStreamedRows : 1; }
  /// Points `scores` and `probabilities` at those of tile `ahead` < tiles_ahead().
  void UseTile(int64_t ahead) {
    scores = first_scores + ahead * kStreamedRows * kScoreStride;
    probabilities = first_probabilities + ahead * kStreamedRows * kScoreStride;
  }
  /// The scores go through the logits kernel before softmax.
  bool shapes_logits;

  float* first_scores;            // [kQueryTile, kKeyTile], row stride kScoreStride
  uint16_t* first_probabilities;  // as scores, bf16 or u8
  float* scores;
  uint16_t* probabilities;
  float* accumulator;     // [kQueryTile, value_width]
  void* query;            // [kQueryTile, depth] of the compute type, or u8
  void* values_copy;      // [kKeyTile, value_width] of the compute type
  float* query_scales;    // [kQueryTile], of u8 queries
  int32_t* integer_sums;  // [kQueryTile, value_width]
  float* expanded_keys;   // blocks of the current tile of keys, when expands()
  float* expanded_values;

  KeyRange keys;                    // those that some row may see
  KeyRange common_keys;             // those that every row may see
  int64_t range_begin[kQueryTile];  // those that each row may see
  int64_t range_end[kQueryTile];
  // The same in the current tile of keys and relative to it:
  int64_t visible_begin[kQueryTile];
  int64_t visible_end[kQueryTile];
  bool is_first = true;
  float row_max[kQueryTile];
  float row_sum[kQueryTile];

 private:
  void ReadQuery();
  void ReadQueryRows(int64_t head, void* target);
};

/// Writes the tile's rows of the output: the accumulator divided by `denominators` [rows].
void StoreOutput(const TileState& s, const float* denominators);

/// Bytes of 64-byte aligned scratch memory of a tile over keys in `storage`.
size_t TileScratchBytes(const AttentionPlan& plan, KeyValueStorage storage);

}  // namespace attention
