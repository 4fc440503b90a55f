#include "core/kernels/attention/attention_tile.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>

#include "core/kernels/attention/row_groups.h"
#include "core/kernels/attention/tile_products.h"
#include "core/kernels/attention/tile_state.h"
#include "core/kernels/attention/weight_rows.h"
#include "core/kernels/tile/row_exponent.h"

namespace attention {
namespace {

void ScoreGroups(const TileState& s, int64_t first_key, const Groups& groups) {
  if (s.expands()) {
    int64_t end = 0;
    for (const RowGroup& group : groups.all()) {
      end = std::max(end, group.block.end);
    }
    ExpandKeyValues(s, first_key, end);
  }
  ForBlocks(s, groups, kKeyBlock, [&](const Block& block) { Score(s, first_key, block); });
}

/// ALiBi's distances are counted from the nearest position that has a key: what they all share
/// would only cost digits.
int64_t NearestKey(const TileState& s, int64_t row) {
  const int64_t position = s.sequence.visibility().query_offset() + s.RowOf(row);
  return std::clamp<int64_t>(position, 0, std::max<int64_t>(s.sequence.kv_len() - 1, 0));
}

/// What the row's logits therefore are too large by.
double LogitShift(const TileState& s, int64_t row) {
  if (s.sequence.options.alibi_slopes.empty()) {
    return 0;
  }
  const int64_t position = s.sequence.visibility().query_offset() + s.RowOf(row);
  return s.sequence.options.alibi_slopes[s.HeadOf(row)] *
         std::abs(static_cast<double>(position - NearestKey(s, row)));
}

/// Makes the rows' logits of raw scores, where that is more than a factor.
void ShapeLogits(const TileState& s, int64_t first_key, const Block& block) {
  const AttentionOptions& q = s.sequence.options;
  LogitRow terms[kQueryTile];
  for (int64_t r = block.first_row; r < block.first_row + block.rows; ++r) {
    const int64_t head = s.HeadOf(r);
    terms[r] = {.alibi_slope = q.alibi_slopes.empty() ? 0 : q.alibi_slopes[head],
                .first_distance = static_cast<float>(NearestKey(s, r) - first_key - block.begin),
                .bias = q.bias.data == nullptr
                            ? nullptr
                            : q.bias.Row(head, s.RowOf(r)) + first_key + block.begin};
  }
  s.kernels.logits({.scores = s.scores + block.first_row * kScoreStride + block.begin,
                    .stride = kScoreStride,
                    .rows = block.rows,
                    .cols = std::min(block.end, s.sequence.kv_len() - first_key) - block.begin,
                    .scale = std::abs(*q.scale),
                    .softcap = q.softcap,
                    .terms = terms + block.first_row});
}

/// Sets the scores of keys that are hidden from the group's rows to -infinity, but for columns from
/// visible_end on. Whether there was something to hide.
bool HideKeys(const TileState& s, int64_t first_key, const RowGroup& group) {
  const Visibility visibility = s.sequence.visibility();
  const Block& block = group.block;
  if (!visibility.has_holes() && group.all_see_begin <= block.begin) {
    return s.sequence.options.bias.data != nullptr;  // which may hold -infinity
  }
  for (int64_t r = block.first_row; r < block.first_row + block.rows; ++r) {
    const KeyRange keys{first_key + block.begin, first_key + s.visible_end[r]};
    if (keys.begin < keys.end) {
      visibility.Hide(s.HeadOf(r), s.RowOf(r), keys, s.scores + r * kScoreStride + block.begin);
    }
  }
  return true;
}

/// Where a step of a group's normalisation keeps its sums, and what it leaves.
struct Normalisation {
  float* row_sum;
  bool bf16;  // probabilities are rounded for the product
};

/// Scores of the group's rows become probabilities relative to the running maximum, or weights.
void Normalise(TileState& s, int64_t first_key, const RowGroup& group, const Normalisation& to) {
  const Block& block = group.block;
  const int64_t r = block.first_row;
  float* scores = s.scores + r * kScoreStride + block.begin;
  if (s.shapes_logits) {
    ShapeLogits(s, first_key, block);
  }
  const bool hides = HideKeys(s, first_key, group);
  int64_t counted_from_begin[kQueryTile];
  const int64_t* visible_end = s.visible_end + r;
  if (block.begin > 0) {
    for (int64_t i = 0; i < block.rows; ++i) {
      counted_from_begin[i] = std::max<int64_t>(visible_end[i] - block.begin, 0);
    }
    visible_end = counted_from_begin;
  }
  if (!IsSoftmax(s.sequence.options.similarity)) {
    return s.kernels.weights({.scores = scores,
                              .stride = kScoreStride,
                              .rows = block.rows,
                              .cols = block.end - block.begin,
                              .visible_end = visible_end,
                              .row_sum = to.row_sum + r});
  }
  s.kernels.softmax(
      {.scores = scores,
       .stride = kScoreStride,
       .rows = block.rows,
       .cols = block.end - block.begin,
       .visible_end = visible_end,
       .hides = hides,
       .scale_log2e = s.scale_log2e,
       .row_max = s.row_max + r,
       .row_sum = to.row_sum + r,
       .accumulator = s.AccumulatorRow(r),
       .accumulator_cols = s.plan.value_width(),
       .is_first = s.is_first,
       .bf16_probabilities = to.bf16 ? s.probabilities + r * kScoreStride + block.begin : nullptr});
}

/// Whether a value that is hidden from some row of the tile is not finite.
bool HidesNonFinite(const TileState& s, int64_t first_key, const Groups& groups) {
  const bool has_holes =
      s.sequence.visibility().has_holes() || s.sequence.options.bias.data != nullptr;
  for (const RowGroup& group : groups.all()) {
    int64_t col = group.block.begin;
    if (!has_holes && col >= group.all_see_begin) {
      col = std::max(col, group.all_see_end / kKeyBlock * kKeyBlock);
    }
    for (; col < group.block.end; col += kKeyBlock) {
      if (!s.ValuesAreFinite(first_key + col)) {
        return true;
      }
    }
  }
  return false;
}

/// Computes softmax and weighted sum of a key tile from its scores.
void SumKeys(TileState& s, int64_t first_key, const Groups& groups) {
  for (const RowGroup& group : groups.all()) {
    Normalise(s, first_key, group, {s.row_sum, s.bf16()});
    const Block& block = group.block;
    if (s.is_first && block.begin == block.end) {
      std::fill_n(s.AccumulatorRow(block.first_row), block.rows * s.plan.value_width(), 0.0f);
    }
  }
  if (s.int8()) {
    for (const RowGroup& group : groups.all()) {
      WeightedSum(s, first_key, group.block, !s.is_first);
    }
  } else if (HidesNonFinite(s, first_key, groups)) {
    for (const RowGroup& group : groups.all()) {
      WeightedSumOfSeen(s, first_key, group.block, !s.is_first);
    }
  } else {
    ForBlocks(s, groups, kSumChunk, [&](const Block& block) {
      const bool continues = groups.common_end >= kSumChunk && block.begin > 0;
      WeightedSum(s, first_key, block, !s.is_first || continues);
    });
  }
  s.is_first = false;
}

/// Attends to the key tiles from `first_key` up to `end_key`, at most tiles_ahead().
void AttendKeys(TileState& s, int64_t first_key, int64_t end_key) {
  Groups groups;
  for (int64_t key = first_key; key < end_key; key += kKeyTile) {
    s.UseTile((key - first_key) / kKeyTile);
    groups = MakeGroups(s, key);
    if (groups.count > 0) {
      ScoreGroups(s, key, groups);
    }
  }
  const bool is_one = end_key - first_key <= kKeyTile;
  for (int64_t key = first_key; key < end_key; key += kKeyTile) {
    s.UseTile((key - first_key) / kKeyTile);
    groups = is_one ? groups : MakeGroups(s, key);
    if (groups.count > 0) {
      SumKeys(s, key, groups);
    }
  }
  s.UseTile(0);
}

/// The logarithm to base 2 of what the row's probabilities are relative to.
double LogitExponent(const TileState& s, int64_t row) {
  return IsSoftmax(s.sequence.options.similarity)
             ? RowExponent(s.row_max[row], s.scale_log2e) - LogitShift(s, row) * std::numbers::log2e
             : 0;
}

/// What the row's sink adds to its sum.
float SinkTerm(const TileState& s, int64_t row) {
  if (s.sequence.options.sinks.empty() || s.row_max[row] == kMinusInfinity) {
    return 0;
  }
  const double sink = s.sequence.options.sinks[s.HeadOf(row)];
  return static_cast<float>(std::exp2(sink * std::numbers::log2e - LogitExponent(s, row)));
}

void WriteLogSumExp(const TileState& s) {
  for (int64_t r = 0; r < s.rows; ++r) {
    const double log2_sum = LogitExponent(s, r) + std::log2(static_cast<double>(s.row_sum[r]));
    s.sequence.log_sum_exp[s.HeadOf(r) * s.sequence.query.tokens + s.RowOf(r)] =
        s.row_sum[r] == 0 ? kMinusInfinity : static_cast<float>(log2_sum * std::numbers::ln2);
  }
}

/// A second pass over the scores, in which the maxima are known: weights are written as they come,
/// in f32 whatever the compute type, and divided by their sum at the end.
void Weigh(TileState& s) {
  float row_sum[kQueryTile] = {};
  WeightRows weights(s);
  s.is_first = true;  // nothing is rescaled
  for (int64_t key = s.keys.begin / kKeyTile * kKeyTile; key < s.keys.end; key += kKeyTile) {
    const Groups groups = MakeGroups(s, key);
    if (groups.count == 0) {
      continue;
    }
    ScoreGroups(s, key, groups);
    for (const RowGroup& group : groups.all()) {
      Normalise(s, key, group, {row_sum, /*bf16=*/false});
    }
    weights.Take(key);
  }
  for (int64_t r = 0; r < s.rows; ++r) {
    weights.Finish(r, row_sum[r] + SinkTerm(s, r));
  }
}

}  // namespace

void AttendTile(const QueryTile& tile, std::byte* scratch) {
  TileState s(tile, scratch);
  std::fill_n(s.row_max, s.rows, kMinusInfinity);
  std::fill_n(s.row_sum, s.rows, 0.0f);
  const FlashSequence& sequence = *tile.sequence;
  if (tile.with_output || sequence.log_sum_exp != nullptr ||
      IsSoftmax(sequence.options.similarity)) {
    const int64_t step = s.tiles_ahead() * kKeyTile;
    for (int64_t key = s.keys.begin / kKeyTile * kKeyTile; key < s.keys.end; key += step) {
      AttendKeys(s, key, std::min(key + step, s.keys.end));
    }
  }
  if (tile.with_output) {
    float denominators[kQueryTile];
    for (int64_t r = 0; r < s.rows; ++r) {
      denominators[r] = s.row_sum[r] == 0 ? 0 : s.row_sum[r] + SinkTerm(s, r);
    }
    StoreOutput(s, denominators);
  }
  if (sequence.log_sum_exp != nullptr) {
    WriteLogSumExp(s);
  }
  if (sequence.wants_weights()) {
    Weigh(s);
  }
}

}  // namespace attention
