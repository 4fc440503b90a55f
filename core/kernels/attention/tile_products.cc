#include "core/kernels/attention/tile_products.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/kernels/attention/matrix_unit.h"
#include "core/kernels/onednn/isa.h"

namespace attention {
namespace {

/// The operand types of few-row products.
struct StreamedTypes {
  StreamProduct::Operands operands;
  int64_t element_bytes;  // of a
  int64_t rows_together;  // of b
};

/// Of rows as they are stored.
StreamedTypes StoredTypes(const TileState& s) {
  if (s.int8()) {
    return {StreamProduct::kInt8, 1, 4};
  }
  if (s.widens) {
    return {StreamProduct::kF32Bf16, 4, 2};
  }
  if (s.bf16()) {
    return {HasMatrixUnit() ? StreamProduct::kBf16Matrix : StreamProduct::kBf16, 2, 2};
  }
  return {StreamProduct::kF32, 4, 1};
}

void StreamScores(const TileState& s, int64_t first_key, const Block& block, int64_t col) {
  const StreamedTypes types = StoredTypes(s);
  const int64_t chunk = s.int8() ? s.plan.depth() : kScoreChunk;
  const int64_t row_bytes = s.plan.depth() * types.element_bytes;
  const std::byte* keys = s.Keys(first_key + col);
  const auto* query = static_cast<const std::byte*>(s.query) + block.first_row * row_bytes;
  for (int64_t depth = 0; depth < s.plan.depth(); depth += chunk) {
    const int64_t taken = std::min(chunk, s.plan.depth() - depth);
    s.kernels.stream({.operands = types.operands,
                      .a = query + depth * types.element_bytes,
                      .a_stride = row_bytes,
                      .rows = block.rows,
                      .b = keys + depth / types.rows_together * kKeyBlock * 4,
                      .b_stride = kKeyBlock * 4,
                      .steps = taken / types.rows_together,
                      .cols = std::min(kKeyBlock, block.end - col),
                      .tile_steps = MatrixTileSteps(taken),
                      .c = s.scores + block.first_row * kScoreStride + col,
                      .c_stride = kScoreStride * 4,
                      .accumulate = depth > 0});
  }
}

void DotProducts(const TileState& s, int64_t first_key, const Block& block) {
  const int64_t padded_rows = AttentionPlan::PaddedRows(block.rows);
  for (int64_t col = block.begin; col < block.end; col += kKeyBlock) {
    if (s.streams) {
      StreamScores(s, first_key, block, col);
      continue;
    }
    const std::byte* keys = s.Keys(first_key + col);
    float* scores = s.scores + block.first_row * kScoreStride + col;
    for (int64_t depth = 0; depth < s.plan.depth(); depth += kScoreChunk) {
      s.plan.Score(padded_rows, std::min(kKeyBlock, block.end - col), depth)
          .Run(s.QueryRow(block.first_row) + depth * s.element_bytes,
               keys + depth * kKeyBlock * s.element_bytes, scores);
    }
  }
}

void Int8DotProducts(const TileState& s, int64_t first_key, const Block& block) {
  const int64_t padded_rows = AttentionPlan::PaddedRows(block.rows);
  const auto* query = static_cast<const uint8_t*>(s.query) + block.first_row * s.plan.depth();
  float* scores = s.scores + block.first_row * kScoreStride;
  for (int64_t col = block.begin; col < block.end; col += kKeyBlock) {
    if (s.streams) {
      StreamScores(s, first_key, block, col);
    } else {
      s.plan.Int8Score(padded_rows).Run(query, s.Keys(first_key + col), scores + col);
    }
  }
  const int64_t key = first_key + block.begin;
  s.kernels.dequantise_scores({.scores = scores + block.begin,
                               .stride = kScoreStride,
                               .rows = block.rows,
                               .cols = block.end - block.begin,
                               .query_scales = s.query_scales + block.first_row,
                               .key_scales = s.PageOf(key).key_scales + s.KeysBefore(key),
                               .key_offsets = s.PageOf(key).key_offsets + s.KeysBefore(key)});
}

void SquaredDistances(const TileState& s, int64_t first_key, const Block& block) {
  for (int64_t col = block.begin; col < block.end; col += kKeyBlock) {
    s.kernels.distances({.similarity = s.sequence.options.similarity,
                         .bandwidth = s.sequence.options.bandwidth,
                         .query = reinterpret_cast<const float*>(s.QueryRow(block.first_row)),
                         .rows = block.rows,
                         .depth = s.plan.depth(),
                         .keys = reinterpret_cast<const float*>(s.Keys(first_key + col)),
                         .scores = s.scores + block.first_row * kScoreStride + col,
                         .stride = kScoreStride});
  }
}

/// Columns up to the next place where a chain ends.
int64_t ChainLength(const Block& block, int64_t col) {
  return std::min(kSumChunk - col % kSumChunk, block.end - col);
}

/// Probabilities of some columns, and their values.
struct SumStep {
  int64_t rows;
  int64_t keys;
  const void* probabilities;
  const std::byte* values;
};

void StreamSum(const TileState& s, const StreamedTypes& types, const SumStep& step, void* c,
               bool accumulate) {
  s.kernels.stream({.operands = types.operands,
                    .a = step.probabilities,
                    .a_stride = kScoreStride * types.element_bytes,
                    .rows = step.rows,
                    .b = step.values,
                    .b_stride = s.plan.value_width() * 4,
                    .steps = step.keys / types.rows_together,
                    .cols = s.plan.value_width(),
                    .tile_steps = MatrixTileSteps(step.keys),
                    .c = c,
                    .c_stride = s.plan.value_width() * 4,
                    .accumulate = accumulate});
}

/// The weighted sum has one scale for all columns of the block: all visible columns of the key
/// tile.
void Int8WeightedSum(const TileState& s, int64_t first_key, const Block& block, bool accumulate) {
  const int64_t width = s.plan.value_width();
  const int64_t padded_rows = AttentionPlan::PaddedRows(block.rows);
  auto* probabilities =
      reinterpret_cast<uint8_t*>(s.probabilities) + block.first_row * kScoreStride;
  float* accumulator = s.AccumulatorRow(block.first_row);
  if (!accumulate) {
    std::fill_n(accumulator, block.rows * width, 0.0f);
  }
  if (block.begin == block.end) {
    return;
  }
  const int64_t key = first_key + block.begin;
  float row_scales[kQueryTile];
  s.kernels.quantise_probabilities(
      {.probabilities = s.scores + block.first_row * kScoreStride + block.begin,
       .stride = kScoreStride,
       .rows = block.rows,
       .cols = block.end - block.begin,
       .value_scales = s.PageOf(key).value_scales + s.KeysBefore(key),
       .target = probabilities + block.begin,
       .row_scales = row_scales});
  for (int64_t col = block.begin; col < block.end; col += ChainLength(block, col)) {
    const int64_t keys = ChainLength(block, col);
    const std::byte* values = s.Values(first_key + col);
    if (s.streams) {
      StreamSum(s, StoredTypes(s), {block.rows, keys, probabilities + col, values}, s.integer_sums,
                /*accumulate=*/col > block.begin);
    } else {
      s.plan.Int8WeightedSum(padded_rows, keys, /*accumulate=*/col > block.begin)
          .Run(probabilities + col, values, s.integer_sums);
    }
  }
  s.kernels.add_scaled({.sums = s.integer_sums,
                        .row_scales = row_scales,
                        .rows = block.rows,
                        .cols = width,
                        .target = accumulator});
}

struct SumOperand {
  const TileState& s;
  const std::byte* copy;  // of the tile's values in the compute type, or null
  int64_t first_key;

  const std::byte* At(int64_t col) const {
    return copy == nullptr ? s.Values(first_key + col)
                           : copy + col * s.plan.value_width() * s.element_bytes;
  }
};

void SumChains(const TileState& s, const SumOperand& values, const Block& block, bool accumulate) {
  const StreamedTypes types = values.copy != nullptr && s.widens
                                  ? StreamedTypes{StreamProduct::kF32, 4, 1}
                                  : StoredTypes(s);
  const int64_t padded_rows = AttentionPlan::PaddedRows(block.rows);
  for (int64_t col = block.begin; col < block.end; col += ChainLength(block, col)) {
    const int64_t keys = ChainLength(block, col);
    const bool continues = accumulate || col > block.begin;
    const std::byte* probabilities = s.ProbabilityRow(block.first_row) + col * s.element_bytes;
    float* sums = s.AccumulatorRow(block.first_row);
    if (s.streams) {
      StreamSum(s, types, {block.rows, keys, probabilities, values.At(col)}, sums, continues);
    } else {
      s.plan.WeightedSum(padded_rows, keys, continues).Run(probabilities, values.At(col), sums);
    }
  }
}

bool IsHidden(const TileState& s, int64_t row, int64_t key) {
  if (key >= s.sequence.kv_len() ||
      !s.sequence.visibility().Sees(s.HeadOf(row), s.RowOf(row), key)) {
    return true;
  }
  const Bias& bias = s.sequence.options.bias;
  return bias.data != nullptr &&
         bias.Row(s.HeadOf(row), s.RowOf(row))[key] == -std::numeric_limits<float>::infinity();
}

/// Copies a block of values in the compute type.
void CopyValues(const TileState& s, int64_t key, std::byte* target) {
  const int64_t width = s.plan.value_width();
  if (s.widens) {
    s.kernels.expand({.source = s.Values(key),
                      .rows = kKeyBlock,
                      .cols = width,
                      .target = reinterpret_cast<float*>(target)});
  } else {
    std::memcpy(target, s.Values(key), kKeyBlock * width * s.element_bytes);
  }
}

/// Zeroes the value of column `col` in the copied values of a key tile.
void ZeroValue(const TileState& s, int64_t col) {
  const int64_t width = s.plan.value_width();
  if (s.bf16()) {
    for (int64_t i = 0; i < width; ++i) {
      static_cast<uint16_t*>(s.values_copy)[PackedIndex(col, i, width, 2)] = 0;
    }
  } else {
    std::memset(static_cast<float*>(s.values_copy) + col * width, 0, width * sizeof(float));
  }
}

}  // namespace

void ExpandKeyValues(const TileState& s, int64_t first_key, int64_t count) {
  const bool int8 = s.tile.packed.storage == KeyValueStorage::kInt8;
  const int64_t bytes = ElementBytes(s.tile.packed.storage);
  const int64_t depth = s.plan.depth();
  const int64_t width = s.plan.value_width();
  for (int64_t key = first_key; key < first_key + count; key += kKeyBlock) {
    const HeadPage& page = s.PageOf(key);
    const int64_t before = s.KeysBefore(key);
    s.kernels.expand({.source = page.keys + before * depth * bytes,
                      .column_scales = int8 ? page.key_scales + before : nullptr,
                      .int8 = int8,
                      .rows = depth,
                      .cols = kKeyBlock,
                      .target = s.expanded_keys + (key - first_key) * depth});
    s.kernels.expand({.source = page.values + before * width * bytes,
                      .row_scales = int8 ? page.value_scales + before : nullptr,
                      .int8 = int8,
                      .rows = kKeyBlock,
                      .cols = width,
                      .target = s.expanded_values + (key - first_key) * width});
  }
}

void Score(const TileState& s, int64_t first_key, const Block& block) {
  if (IsRegression(s.sequence.options.similarity)) {
    SquaredDistances(s, first_key, block);
  } else if (s.int8()) {
    Int8DotProducts(s, first_key, block);
  } else {
    DotProducts(s, first_key, block);
  }
}

void WeightedSum(const TileState& s, int64_t first_key, const Block& block, bool accumulate) {
  if (s.int8()) {
    Int8WeightedSum(s, first_key, block, accumulate);
  } else {
    SumChains(s, {s, nullptr, first_key}, block, accumulate);
  }
}

void WeightedSumOfSeen(const TileState& s, int64_t first_key, const Block& block, bool accumulate) {
  auto* copy = static_cast<std::byte*>(s.values_copy);
  for (int64_t r = block.first_row; r < block.first_row + block.rows; ++r) {
    for (int64_t col = block.begin; col < block.end; col += kKeyBlock) {
      const bool is_finite = s.ValuesAreFinite(first_key + col);
      if (is_finite && r > block.first_row) {
        continue;
      }
      CopyValues(s, first_key + col, copy + col * s.plan.value_width() * s.element_bytes);
      for (int64_t i = col; !is_finite && i < col + kKeyBlock; ++i) {
        if (IsHidden(s, r, first_key + i)) {
          ZeroValue(s, i);
        }
      }
    }
    SumChains(s, {s, copy, first_key}, {r, 1, block.begin, block.end}, accumulate);
  }
}

}  // namespace attention
