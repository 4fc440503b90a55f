#include "core/kernels/attention_tile.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <span>

namespace attention {
namespace {

/// What a thread works on while it holds a tile.
struct TileState {
  TileState(const AttentionPlan& p, const QueryTile& t, std::byte* scratch);

  /// Keys [0, end()) are seen by some row.
  int64_t end() const { return row_end[tile.rows - 1]; }
  bool bf16() const { return plan.compute() == Dtype::kBf16; }
  const std::byte* QueryRow(int64_t row) const {
    return static_cast<std::byte*>(query) + row * plan.depth() * element_bytes;
  }
  const std::byte* ProbabilityRow(int64_t row) const {
    const void* first = bf16() ? static_cast<const void*>(probabilities) : scores;
    return static_cast<const std::byte*>(first) + row * kScoreStride * element_bytes;
  }
  float* AccumulatorRow(int64_t row) const { return accumulator + row * plan.value_width(); }
  const std::byte* Values(int64_t key) const {
    return tile.packed.values + key * plan.value_width() * element_bytes;
  }

  const AttentionPlan& plan;
  const QueryTile& tile;
  const TileKernels& kernels;
  int64_t element_bytes;
  float scale_log2e;

  float* scores;                    // [kQueryTile, kKeyTile], row stride kScoreStride
  uint16_t* probabilities;          // as scores, bf16
  float* accumulator;               // [kQueryTile, value_width]
  void* query;                      // [kQueryTile, depth] of the compute type
  void* values_copy;                // [kKeyTile, value_width] of the compute type
  int64_t row_end[kQueryTile];      // keys seen by each row
  int64_t visible_end[kQueryTile];  // of those, in the current tile of keys
  float row_max[kQueryTile];
  float row_sum[kQueryTile];
};

template <typename T>
T* Take(std::byte*& scratch, int64_t count) {
  T* taken = reinterpret_cast<T*>(scratch);
  scratch += RoundUp(count * static_cast<int64_t>(sizeof(T)), 64);
  return taken;
}

TileState::TileState(const AttentionPlan& p, const QueryTile& t, std::byte* scratch)
    : plan(p),
      tile(t),
      kernels(CurrentTileKernels()),
      element_bytes(static_cast<int64_t>(SizeOf(p.compute()))),
      scale_log2e(std::abs(t.sequence->scale) * std::numbers::log2e_v<float>),
      scores(Take<float>(scratch, kQueryTile * kScoreStride)),
      probabilities(Take<uint16_t>(scratch, kQueryTile * kScoreStride)),
      accumulator(Take<float>(scratch, kQueryTile * p.value_width())),
      query(Take<float>(scratch, kQueryTile * p.depth())),
      values_copy(Take<float>(scratch, kKeyTile * p.value_width())) {
  const HeadsView& view = tile.sequence->query;
  const int64_t first = tile.first_row * view.token_stride + tile.head * view.head_stride;
  kernels.copy_rows({ElementAt(view.data, view.dtype, first), view.dtype, view.token_stride,
                     tile.rows, view.head_dim},
                    plan.compute(), plan.depth(), tile.sequence->scale < 0, query);
  std::memset(static_cast<std::byte*>(query) + tile.rows * plan.depth() * element_bytes, 0,
              (AttentionPlan::PaddedRows(tile.rows) - tile.rows) * plan.depth() * element_bytes);
  for (int64_t r = 0; r < tile.rows; ++r) {
    row_end[r] = tile.sequence->VisibleEnd(tile.first_row + r);
  }
}

/// Rows of the tile, and the columns [begin, end) of the current tile of keys that are computed for
/// all of them.
struct Block {
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

/// `block.begin` is a multiple of kKeyBlock, `block.end` of kKeyStep.
void Score(const TileState& s, int64_t first_key, const Block& block) {
  const int64_t padded_rows = AttentionPlan::PaddedRows(block.rows);
  for (int64_t col = block.begin; col < block.end; col += kKeyBlock) {
    const std::byte* keys = s.tile.packed.keys + (first_key + col) / kKeyBlock *
                                                     s.plan.key_block_elements() * s.element_bytes;
    float* scores = s.scores + block.first_row * kScoreStride + col;
    for (int64_t depth = 0; depth < s.plan.depth(); depth += kScoreChunk) {
      s.plan.Score(padded_rows, std::min(kKeyBlock, block.end - col), depth)
          .Run(s.QueryRow(block.first_row) + depth * s.element_bytes,
               keys + depth * kKeyBlock * s.element_bytes, scores);
    }
  }
}

/// `values` are those of the tile's first key; `block.begin` is a multiple of kSumChunk,
/// `block.end` of kKeyStep.
void WeightedSum(const TileState& s, const std::byte* values, bool is_first, const Block& block) {
  const int64_t padded_rows = AttentionPlan::PaddedRows(block.rows);
  for (int64_t col = block.begin; col < block.end; col += kSumChunk) {
    s.plan.WeightedSum(padded_rows, std::min(kSumChunk, block.end - col), !is_first || col > 0)
        .Run(s.ProbabilityRow(block.first_row) + col * s.element_bytes,
             values + col * s.plan.value_width() * s.element_bytes,
             s.AccumulatorRow(block.first_row));
  }
}

void Softmax(TileState& s, bool is_first, const Block& block) {
  const int64_t r = block.first_row;
  s.kernels.softmax(
      {.scores = s.scores + r * kScoreStride,
       .stride = kScoreStride,
       .rows = block.rows,
       .cols = block.end,
       .visible_end = s.visible_end + r,
       .scale_log2e = s.scale_log2e,
       .row_max = s.row_max + r,
       .row_sum = s.row_sum + r,
       .accumulator = s.AccumulatorRow(r),
       .accumulator_cols = s.plan.value_width(),
       .is_first = is_first,
       .bf16_probabilities = s.bf16() ? s.probabilities + r * kScoreStride : nullptr});
}

/// Whether a value that some row of the tile does not see is not finite.
bool HidesNonFinite(const TileState& s, int64_t first_key, int64_t seen) {
  const int64_t first_unseen = s.visible_end[0];
  for (int64_t col = first_unseen / kKeyBlock * kKeyBlock; col < seen; col += kKeyBlock) {
    if (first_unseen < seen &&
        s.tile.packed.values_are_finite[(first_key + col) / kKeyBlock] == 0) {
      return true;
    }
  }
  return false;
}

/// Zeroes the copied values of keys [first, last).
void ZeroValues(const TileState& s, int64_t first, int64_t last) {
  const int64_t width = s.plan.value_width();
  for (int64_t key = first; key < last; ++key) {
    if (s.bf16()) {
      uint16_t* pair = static_cast<uint16_t*>(s.values_copy) + key / 2 * 2 * width + key % 2;
      for (int64_t i = 0; i < width; ++i) {
        pair[2 * i] = 0;
      }
    } else {
      std::memset(static_cast<float*>(s.values_copy) + key * width, 0, width * sizeof(float));
    }
  }
}

/// The weighted sum row by row over a copy of the values in which unseen ones are zero: 0 * NaN
/// must not reach a row that does not see the NaN. The same bits as the fast path wherever all
/// values are finite.
void WeightedSumOfSeen(const TileState& s, int64_t first_key, const Block& block) {
  std::memcpy(s.values_copy, s.Values(first_key),
              block.end * s.plan.value_width() * s.element_bytes);
  int64_t kept = block.end;
  for (int64_t r = block.rows - 1; r >= 0; --r) {  // visible_end does not decrease with the row
    ZeroValues(s, s.visible_end[r], kept);
    kept = s.visible_end[r];
    WeightedSum(s, static_cast<std::byte*>(s.values_copy), first_key == 0,
                {r, 1, 0, RoundUp(kept, kKeyStep)});
  }
}

/// Cuts the tile's rows into groups with the columns that each group sees: one group when all see
/// the same.
int64_t MakeGroups(const TileState& s, Block (&groups)[kQueryTile / kRowGroup]) {
  const bool is_uniform = s.visible_end[0] == s.visible_end[s.tile.rows - 1];
  const int64_t group_rows = is_uniform ? kQueryTile : kRowGroup;
  int64_t count = 0;
  for (int64_t row = 0; row < s.tile.rows; row += group_rows) {
    const int64_t rows = std::min(group_rows, s.tile.rows - row);
    groups[count++] = {row, rows, 0, RoundUp(s.visible_end[row + rows - 1], kKeyStep)};
  }
  return count;
}

void AttendKeys(TileState& s, int64_t first_key) {
  const int64_t rows = s.tile.rows;
  const int64_t seen = std::min(s.end() - first_key, kKeyTile);
  const bool is_first = first_key == 0;
  for (int64_t r = 0; r < rows; ++r) {
    s.visible_end[r] = std::clamp<int64_t>(s.row_end[r] - first_key, 0, seen);
  }
  Block groups[kQueryTile / kRowGroup];
  const int64_t num_groups = MakeGroups(s, groups);
  const std::span<const Block> all_groups(groups, num_groups);
  // Columns that every row's group computes are taken for all rows at once.
  const int64_t common_scores = num_groups == 1 ? 0 : groups[0].end / kKeyBlock * kKeyBlock;
  const int64_t common_sums = num_groups == 1 ? 0 : groups[0].end / kSumChunk * kSumChunk;

  Score(s, first_key, {0, rows, 0, common_scores});
  for (const Block& group : all_groups) {
    Score(s, first_key, {group.first_row, group.rows, common_scores, group.end});
    Softmax(s, is_first, group);
  }
  if (HidesNonFinite(s, first_key, seen)) {
    return WeightedSumOfSeen(s, first_key, {0, rows, 0, RoundUp(seen, kKeyStep)});
  }
  WeightedSum(s, s.Values(first_key), is_first, {0, rows, 0, common_sums});
  for (const Block& group : all_groups) {
    WeightedSum(s, s.Values(first_key), is_first,
                {group.first_row, group.rows, common_sums, group.end});
  }
}

}  // namespace

size_t TileScratchBytes(const AttentionPlan& plan) {
  const int64_t floats = kQueryTile * (kScoreStride + plan.value_width() + plan.depth()) +
                         kKeyTile * plan.value_width();
  return floats * sizeof(float) + kQueryTile * kScoreStride * sizeof(uint16_t);
}

void AttendTile(const AttentionPlan& plan, const QueryTile& tile, std::byte* scratch) {
  TileState s(plan, tile, scratch);
  std::fill_n(s.row_max, tile.rows, -std::numeric_limits<float>::infinity());
  std::fill_n(s.row_sum, tile.rows, 0.0f);
  for (int64_t first_key = 0; first_key < s.end(); first_key += kKeyTile) {
    AttendKeys(s, first_key);
  }
  const MutableHeadsView& output = tile.sequence->output;
  const int64_t first = tile.first_row * output.token_stride + tile.head * output.head_stride;
  s.kernels.store({.source = s.accumulator,
                   .source_stride = plan.value_width(),
                   .rows = tile.rows,
                   .cols = output.head_dim,
                   .row_sum = s.row_sum,
                   .target = ElementAt(output.data, output.dtype, first),
                   .target_dtype = output.dtype,
                   .target_stride = output.token_stride});
}

void WeighTile(const AttentionPlan& plan, const QueryTile& tile, std::byte* scratch) {
  TileState s(plan, tile, scratch);
  const FlashSequence& sequence = *tile.sequence;
  const int64_t kv_len = sequence.key.tokens;
  float* weights = sequence.weights + (tile.head * sequence.query.tokens + tile.first_row) * kv_len;
  for (int64_t first_key = 0; first_key < s.end(); first_key += kKeyTile) {
    const int64_t seen = std::min(s.end() - first_key, kKeyTile);
    Score(s, first_key, {0, tile.rows, 0, RoundUp(seen, kKeyStep)});
    for (int64_t r = 0; r < tile.rows; ++r) {
      std::copy_n(s.scores + r * kScoreStride, seen, weights + r * kv_len + first_key);
    }
  }
  for (int64_t r = 0; r < tile.rows; ++r) {
    s.kernels.softmax_row(weights + r * kv_len, s.row_end[r], kv_len, s.scale_log2e);
  }
}

}  // namespace attention
