#include "core/kernels/attention/tile_products.h"

#include <algorithm>
#include <limits>

#include "core/kernels/attention/matrix_unit.h"
#include "core/kernels/onednn/isa.h"

namespace attention {
namespace {

/// The number of columns from `col` up to the end of their chain.
int64_t ChainLength(const Rectangle& rectangle, int64_t col) {
  return std::min(kSumChain - col % kSumChain, rectangle.end - col);
}

}  // namespace

/// The operands of a few-row product.
struct TileProducts::FewRowTypes {
  FewRowProduct::Operands operands;
  int64_t element_bytes;  // of a
  int64_t rows_together;  // of b
};

TileProducts::FewRowTypes TileProducts::TypesOfFewRows() const {
  if (setup_.int8()) {
    return {FewRowProduct::kInt8, 1, 4};
  }
  if (setup_.widens()) {
    return {FewRowProduct::kF32Bf16, 4, 2};
  }
  if (setup_.bf16()) {
    return {HasMatrixUnit() ? FewRowProduct::kBf16Matrix : FewRowProduct::kBf16, 2, 2};
  }
  return {FewRowProduct::kF32, 4, 1};
}

/// Whether all keys lie in one key block.
bool TileProducts::IsShort() const { return setup_.sequence.kv_len() <= kKeyBlock; }

/// The keys from `key` on, a multiple of kKeyBlock, in packed memory.
const std::byte* TileProducts::Keys(int64_t key) const {
  if (setup_.expands()) {
    return reinterpret_cast<const std::byte*>(buffers_.expanded->Keys(key));
  }
  return setup_.PageOf(key).keys +
         setup_.KeysBefore(key) * plan_.depth() * ElementBytes(setup_.tile.packed.storage);
}

/// Returns the number of columns of a panel of the page with `key`.
int64_t TileProducts::ValueColumns(int64_t key) const {
  return setup_.expands() ? plan_.value_width() : setup_.PageOf(key).value_columns;
}

/// Returns the values of `key` in the first panel; they are contiguous up to the next multiple of
/// kSumChain.
const std::byte* TileProducts::Values(int64_t key) const {
  if (setup_.expands()) {
    return reinterpret_cast<const std::byte*>(buffers_.expanded->Values(key));
  }
  return setup_.PageOf(key).values +
         setup_.KeysBefore(key) * ValueColumns(key) * ElementBytes(setup_.tile.packed.storage);
}

void TileProducts::ExpandKeyValues(const KeyTile& keys, int64_t count) const {
  const bool int8 = setup_.tile.packed.storage == KeyValueStorage::kInt8;
  const int64_t bytes = ElementBytes(setup_.tile.packed.storage);
  const int64_t depth = plan_.depth();
  const int64_t width = plan_.value_width();
  ExpandedKeys& expanded = *buffers_.expanded;
  int64_t col = expanded.Converted(keys.first_key);
  for (; col < count; col += kKeyBlock) {
    const int64_t key = keys.first_key + col;
    const HeadPage& page = setup_.PageOf(key);
    const int64_t before = setup_.KeysBefore(key);
    setup_.kernels.expand({.source = page.keys + before * depth * bytes,
                           .column_scales = int8 ? page.key_scales + before : nullptr,
                           .int8 = int8,
                           .rows = depth,
                           .cols = kKeyBlock,
                           .target = expanded.Keys(key)});
    setup_.kernels.expand({.source = page.values + before * width * bytes,
                           .row_scales = int8 ? page.value_scales + before : nullptr,
                           .int8 = int8,
                           .rows = kKeyBlock,
                           .cols = width,
                           .target = expanded.Values(key)});
  }
  expanded.SetConverted(keys.first_key, col);
}

// Scores.

void TileProducts::Score(const KeyTile& keys, const Rectangle& rectangle) const {
  if (IsRegression(setup_.sequence.options.similarity)) {
    Distances(keys, rectangle);
  } else {
    DotProducts(keys, rectangle);
  }
}

/// Prefetches the scales of a key block. They lie apart from the keys and values, where the
/// processor would begin to read them only when they are needed.
void TileProducts::PrefetchScales(int64_t key) const {
  const HeadPage& page = setup_.PageOf(key);
  const int64_t before = setup_.KeysBefore(key);
  for (const float* scales : {page.key_scales, page.key_offsets, page.value_scales}) {
    for (int64_t i = 0; i < kKeyBlock; i += 16) {
      __builtin_prefetch(scales + before + i);
    }
  }
}

void TileProducts::ScoreFewRows(const KeyTile& keys, const Rectangle& rectangle,
                                int64_t col) const {
  const FewRowTypes types = TypesOfFewRows();
  const int64_t chain = setup_.int8() ? plan_.depth() : kScoreChain;
  const std::byte* query = QueryRow(rectangle.first_row);
  const std::byte* block = Keys(keys.first_key + col);
  if (setup_.int8()) {
    PrefetchScales(keys.first_key + col);
  }
  for (int64_t depth = 0; depth < plan_.depth(); depth += chain) {
    const int64_t taken = std::min(chain, plan_.depth() - depth);
    MultiplyByFewRows(setup_.kernels, {.processor = setup_.processor,
                                       .operands = types.operands,
                                       .a = query + depth * types.element_bytes,
                                       .a_stride = plan_.depth() * types.element_bytes,
                                       .rows = rectangle.rows,
                                       .b = block + depth / types.rows_together * kKeyBlock * 4,
                                       .b_stride = kKeyBlock * 4,
                                       .steps = taken / types.rows_together,
                                       .cols = std::min(kKeyBlock, rectangle.end - col),
                                       .tile_steps = MatrixTileSteps(taken),
                                       .is_short = IsShort(),
                                       .c = keys.ScoreRow(rectangle.first_row) + col,
                                       .c_stride = kScoreStride * 4,
                                       .accumulate = depth > 0});
  }
}

void TileProducts::DotProducts(const KeyTile& keys, const Rectangle& rectangle) const {
  const int64_t padded_rows = AttentionPlan::PaddedRows(rectangle.rows);
  const std::byte* query = QueryRow(rectangle.first_row);
  float* scores = keys.ScoreRow(rectangle.first_row);
  for (int64_t col = rectangle.begin; col < rectangle.end; col += kKeyBlock) {
    const std::byte* block = Keys(keys.first_key + col);
    PrefetchSome(setup_.tile.upcoming);
    if (setup_.has_few_rows) {
      ScoreFewRows(keys, rectangle, col);
    } else if (setup_.int8()) {
      plan_.Int8Score(padded_rows).Run(query, block, scores + col);
    } else {
      for (int64_t depth = 0; depth < plan_.depth(); depth += kScoreChain) {
        plan_.Score(padded_rows, std::min(kKeyBlock, rectangle.end - col), depth)
            .Run(query + depth * setup_.element_bytes,
                 block + depth * kKeyBlock * setup_.element_bytes, scores + col);
      }
    }
  }
  if (!setup_.int8()) {
    return;
  }
  const HeadPage& page = setup_.PageOf(keys.first_key + rectangle.begin);
  const int64_t before = setup_.KeysBefore(keys.first_key + rectangle.begin);
  setup_.kernels.dequantise_scores({.scores = scores + rectangle.begin,
                                    .stride = kScoreStride,
                                    .rows = rectangle.rows,
                                    .cols = rectangle.end - rectangle.begin,
                                    .query_scales = buffers_.query_scales + rectangle.first_row,
                                    .key_scales = page.key_scales + before,
                                    .key_offsets = page.key_offsets + before});
}

void TileProducts::Distances(const KeyTile& keys, const Rectangle& rectangle) const {
  // Numbers below the normal ones count as 0, by which no distance can be divided. The smallest
  // normal one makes the same weights: all squares of f32 that are not 0 are far larger.
  const double bandwidth =
      std::max(setup_.sequence.options.bandwidth, std::numeric_limits<double>::min());
  for (int64_t col = rectangle.begin; col < rectangle.end; col += kKeyBlock) {
    setup_.kernels.distances(
        {.similarity = setup_.sequence.options.similarity,
         .bandwidth = bandwidth,
         .query = reinterpret_cast<const float*>(QueryRow(rectangle.first_row)),
         .rows = rectangle.rows,
         .depth = plan_.depth(),
         .keys = Keys(keys.first_key + col),
         .keys_dtype = setup_.widens() ? Dtype::kBf16 : Dtype::kF32,
         .scores = keys.ScoreRow(rectangle.first_row) + col,
         .stride = kScoreStride});
  }
}

// Weighted sums.

void TileProducts::AddValues(const KeyTile& keys, const Rectangle& rectangle,
                             bool accumulate) const {
  if (setup_.int8()) {
    AddInt8Values(keys, rectangle, accumulate);
  } else {
    AddChains(keys, rectangle, /*is_copied=*/false, accumulate);
  }
}

/// The operands of one chain of a few-row product.
struct TileProducts::Chain {
  FewRowTypes types;
  int64_t rows;
  int64_t keys;
  int64_t columns;
  const void* probabilities;
  const std::byte* values;
};

void TileProducts::AddChain(const Chain& chain, void* sums, bool accumulate) const {
  MultiplyByFewRows(setup_.kernels, {.processor = setup_.processor,
                                     .operands = chain.types.operands,
                                     .a = chain.probabilities,
                                     .a_stride = kScoreStride * chain.types.element_bytes,
                                     .rows = chain.rows,
                                     .b = chain.values,
                                     .b_stride = chain.columns * 4,
                                     .steps = chain.keys / chain.types.rows_together,
                                     .cols = chain.columns,
                                     .tile_steps = MatrixTileSteps(chain.keys),
                                     .is_short = IsShort(),
                                     .c = sums,
                                     .c_stride = plan_.value_width() * 4,
                                     .accumulate = accumulate});
}

/// Reads the values from values_copy with `is_copied`, else where they are stored.
void TileProducts::AddChains(const KeyTile& keys, const Rectangle& rectangle, bool is_copied,
                             bool accumulate) const {
  FewRowTypes types = TypesOfFewRows();
  if (is_copied && setup_.widens()) {
    types = {FewRowProduct::kF32, 4, 1};
  }
  const auto* copy = static_cast<const std::byte*>(buffers_.values_copy);
  const void* first_row =
      setup_.bf16()
          ? static_cast<const void*>(keys.probabilities + rectangle.first_row * kScoreStride)
          : keys.ScoreRow(rectangle.first_row);
  const int64_t padded_rows = AttentionPlan::PaddedRows(rectangle.rows);
  const int64_t width = plan_.value_width();
  float* sums = AccumulatorRow(rectangle.first_row);
  for (int64_t col = rectangle.begin; col < rectangle.end; col += ChainLength(rectangle, col)) {
    const int64_t count = ChainLength(rectangle, col);
    const bool continues = accumulate || col > rectangle.begin;
    const std::byte* probabilities =
        static_cast<const std::byte*>(first_row) + col * setup_.element_bytes;
    const std::byte* values =
        is_copied ? copy + col * width * setup_.element_bytes : Values(keys.first_key + col);
    const int64_t columns = is_copied ? width : ValueColumns(keys.first_key + col);
    for (int64_t first = 0; first < width; first += columns) {
      if (setup_.has_few_rows) {
        AddChain({types, rectangle.rows, count, columns, probabilities, values}, sums + first,
                 continues);
      } else {
        const Gemm& gemm = columns < width ? plan_.PanelSum(padded_rows, count, continues)
                                           : plan_.WeightedSum(padded_rows, count, continues);
        gemm.Run(probabilities, values, sums + first);
      }
      if (columns < width) {
        values += setup_.PageOf(keys.first_key + col).panel_bytes;
      }
    }
  }
}

/// The integer sums have one scale for all columns of the rectangle, which must therefore hold all
/// visible columns of the key tile.
void TileProducts::AddInt8Values(const KeyTile& keys, const Rectangle& rectangle,
                                 bool accumulate) const {
  const int64_t width = plan_.value_width();
  float* accumulator = AccumulatorRow(rectangle.first_row);
  if (!accumulate) {
    std::fill_n(accumulator, rectangle.rows * width, 0.0f);
  }
  if (rectangle.begin == rectangle.end) {
    return;
  }
  auto* probabilities =
      reinterpret_cast<uint8_t*>(keys.probabilities) + rectangle.first_row * kScoreStride;
  float row_scales[kQueryTile];
  setup_.kernels.quantise_probabilities(
      {.probabilities = keys.ScoreRow(rectangle.first_row) + rectangle.begin,
       .stride = kScoreStride,
       .rows = rectangle.rows,
       .cols = rectangle.end - rectangle.begin,
       .largest = buffers_.largest + rectangle.first_row,
       .target = probabilities + rectangle.begin,
       .row_scales = row_scales});
  const int64_t padded_rows = AttentionPlan::PaddedRows(rectangle.rows);
  for (int64_t col = rectangle.begin; col < rectangle.end; col += ChainLength(rectangle, col)) {
    const int64_t count = ChainLength(rectangle, col);
    const std::byte* values = Values(keys.first_key + col);
    const bool continues = col > rectangle.begin;
    if (setup_.has_few_rows) {
      AddChain({TypesOfFewRows(), rectangle.rows, count, width, probabilities + col, values},
               buffers_.integer_sums, continues);
    } else {
      plan_.Int8WeightedSum(padded_rows, count, continues)
          .Run(probabilities + col, values, buffers_.integer_sums);
    }
  }
  setup_.kernels.add_scaled({.sums = buffers_.integer_sums,
                             .row_scales = row_scales,
                             .rows = rectangle.rows,
                             .cols = width,
                             .target = accumulator});
}

}  // namespace attention
