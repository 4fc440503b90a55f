#include "core/kernels/attention/tile_products.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "core/kernels/attention/matrix_unit.h"
#include "core/kernels/onednn/isa.h"

namespace attention {
namespace {

/// The number of columns from `col` up to the end of their chain.
int64_t ChainLength(const Rectangle& part, int64_t col) {
  return std::min(kSumChain - col % kSumChain, part.end - col);
}

constexpr uint32_t kSign = 0x80000000;      // bits of f32
constexpr uint32_t kInfinity = 0x7f800000;  // larger bits without sign are NaN

constexpr int64_t kElementsAtATime = 64;

/// Which of kElementsAtATime elements of a value, or of a sum, are not finite: one bit each.
struct NonFiniteElements {
  uint64_t nan = 0;
  uint64_t plus = 0;  // infinity
  uint64_t minus = 0;

  void Add(int64_t element, uint32_t bits) {
    uint64_t& set = (bits & ~kSign) > kInfinity ? nan : bits == kInfinity ? plus : minus;
    set |= uint64_t{(bits & ~kSign) >= kInfinity} << element;
  }
  void Add(const NonFiniteElements& value) {
    nan |= value.nan;
    plus |= value.plus;
    minus |= value.minus;
  }
  void AddTimesZero(const NonFiniteElements& value) { nan |= value.nan | value.plus | value.minus; }
  void AddTo(float* target) const {
    constexpr float kInf = std::numeric_limits<float>::infinity();
    for (uint64_t rest = nan | plus | minus; rest != 0; rest &= rest - 1) {
      const int element = std::countr_zero(rest);
      const auto has = [&](uint64_t set) { return (set >> element & 1) != 0; };
      target[element] += has(nan) || (has(plus) && has(minus))
                             ? std::numeric_limits<float>::quiet_NaN()
                             : (has(plus) ? kInf : -kInf);
    }
  }
};

}  // namespace

/// The values of a key tile that are not finite, and which rows attend to them.
struct TileProducts::NonFiniteValues {
  /// A set of numbers of values.
  class Numbers {
   public:
    void Add(int64_t n, bool is_in) { words_[n / 64] |= uint64_t{is_in} << n % 64; }
    template <typename F>
    void ForEach(const F& f) const {
      for (int64_t i = 0; i < std::ssize(words_); ++i) {
        for (uint64_t rest = words_[i]; rest != 0; rest &= rest - 1) {
          f(i * 64 + std::countr_zero(rest));
        }
      }
    }

   private:
    std::array<uint64_t, kKeyTile / 64> words_ = {};
  };

  int64_t count = 0;
  int16_t columns[kKeyTile];
  // Of each row: the values to whose keys it attends, by whether their probability is zero.
  Numbers weighted[kQueryTile];
  Numbers times_zero[kQueryTile];
};

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

void TileProducts::Score(const KeyTile& keys, const Rectangle& part) const {
  if (IsRegression(setup_.sequence.options.similarity)) {
    Distances(keys, part);
  } else {
    DotProducts(keys, part);
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

void TileProducts::ScoreFewRows(const KeyTile& keys, const Rectangle& part, int64_t col) const {
  const FewRowTypes types = TypesOfFewRows();
  const int64_t chain = setup_.int8() ? plan_.depth() : kScoreChain;
  const std::byte* query = QueryRow(part.first_row);
  const std::byte* block = Keys(keys.first_key + col);
  if (setup_.int8()) {
    PrefetchScales(keys.first_key + col);
  }
  for (int64_t depth = 0; depth < plan_.depth(); depth += chain) {
    const int64_t taken = std::min(chain, plan_.depth() - depth);
    setup_.kernels.few_row_product({.operands = types.operands,
                                    .a = query + depth * types.element_bytes,
                                    .a_stride = plan_.depth() * types.element_bytes,
                                    .rows = part.rows,
                                    .b = block + depth / types.rows_together * kKeyBlock * 4,
                                    .b_stride = kKeyBlock * 4,
                                    .steps = taken / types.rows_together,
                                    .cols = std::min(kKeyBlock, part.end - col),
                                    .tile_steps = MatrixTileSteps(taken),
                                    .c = keys.ScoreRow(part.first_row) + col,
                                    .c_stride = kScoreStride * 4,
                                    .accumulate = depth > 0});
  }
}

void TileProducts::DotProducts(const KeyTile& keys, const Rectangle& part) const {
  const int64_t padded_rows = AttentionPlan::PaddedRows(part.rows);
  const std::byte* query = QueryRow(part.first_row);
  float* scores = keys.ScoreRow(part.first_row);
  for (int64_t col = part.begin; col < part.end; col += kKeyBlock) {
    const std::byte* block = Keys(keys.first_key + col);
    PrefetchSome(setup_.tile.upcoming);
    if (setup_.has_few_rows) {
      ScoreFewRows(keys, part, col);
    } else if (setup_.int8()) {
      plan_.Int8Score(padded_rows).Run(query, block, scores + col);
    } else {
      for (int64_t depth = 0; depth < plan_.depth(); depth += kScoreChain) {
        plan_.Score(padded_rows, std::min(kKeyBlock, part.end - col), depth)
            .Run(query + depth * setup_.element_bytes,
                 block + depth * kKeyBlock * setup_.element_bytes, scores + col);
      }
    }
  }
  if (!setup_.int8()) {
    return;
  }
  const HeadPage& page = setup_.PageOf(keys.first_key + part.begin);
  const int64_t before = setup_.KeysBefore(keys.first_key + part.begin);
  setup_.kernels.dequantise_scores({.scores = scores + part.begin,
                                    .stride = kScoreStride,
                                    .rows = part.rows,
                                    .cols = part.end - part.begin,
                                    .query_scales = buffers_.query_scales + part.first_row,
                                    .key_scales = page.key_scales + before,
                                    .key_offsets = page.key_offsets + before});
}

void TileProducts::Distances(const KeyTile& keys, const Rectangle& part) const {
  for (int64_t col = part.begin; col < part.end; col += kKeyBlock) {
    setup_.kernels.distances({.similarity = setup_.sequence.options.similarity,
                              .bandwidth = setup_.sequence.options.bandwidth,
                              .query = reinterpret_cast<const float*>(QueryRow(part.first_row)),
                              .rows = part.rows,
                              .depth = plan_.depth(),
                              .keys = reinterpret_cast<const float*>(Keys(keys.first_key + col)),
                              .scores = keys.ScoreRow(part.first_row) + col,
                              .stride = kScoreStride});
  }
}

// Weighted sums.

void TileProducts::AddValues(const KeyTile& keys, const Rectangle& part, bool accumulate) const {
  if (setup_.int8()) {
    AddInt8Values(keys, part, accumulate);
  } else {
    AddChains(keys, part, /*is_copied=*/false, accumulate);
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
  setup_.kernels.few_row_product({.operands = chain.types.operands,
                                  .a = chain.probabilities,
                                  .a_stride = kScoreStride * chain.types.element_bytes,
                                  .rows = chain.rows,
                                  .b = chain.values,
                                  .b_stride = chain.columns * 4,
                                  .steps = chain.keys / chain.types.rows_together,
                                  .cols = chain.columns,
                                  .tile_steps = MatrixTileSteps(chain.keys),
                                  .c = sums,
                                  .c_stride = plan_.value_width() * 4,
                                  .accumulate = accumulate});
}

/// Reads the values from values_copy with `is_copied`, else where they are stored.
void TileProducts::AddChains(const KeyTile& keys, const Rectangle& part, bool is_copied,
                             bool accumulate) const {
  FewRowTypes types = TypesOfFewRows();
  if (is_copied && setup_.widens()) {
    types = {FewRowProduct::kF32, 4, 1};
  }
  const auto* copy = static_cast<const std::byte*>(buffers_.values_copy);
  const void* first_row =
      setup_.bf16() ? static_cast<const void*>(keys.probabilities + part.first_row * kScoreStride)
                    : keys.ScoreRow(part.first_row);
  const int64_t padded_rows = AttentionPlan::PaddedRows(part.rows);
  const int64_t width = plan_.value_width();
  float* sums = AccumulatorRow(part.first_row);
  for (int64_t col = part.begin; col < part.end; col += ChainLength(part, col)) {
    const int64_t count = ChainLength(part, col);
    const bool continues = accumulate || col > part.begin;
    const std::byte* probabilities =
        static_cast<const std::byte*>(first_row) + col * setup_.element_bytes;
    const std::byte* values =
        is_copied ? copy + col * width * setup_.element_bytes : Values(keys.first_key + col);
    const int64_t columns = is_copied ? width : ValueColumns(keys.first_key + col);
    for (int64_t first = 0; first < width; first += columns) {
      if (setup_.has_few_rows) {
        AddChain({types, part.rows, count, columns, probabilities, values}, sums + first,
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
void TileProducts::AddInt8Values(const KeyTile& keys, const Rectangle& part,
                                 bool accumulate) const {
  const int64_t width = plan_.value_width();
  float* accumulator = AccumulatorRow(part.first_row);
  if (!accumulate) {
    std::fill_n(accumulator, part.rows * width, 0.0f);
  }
  if (part.begin == part.end) {
    return;
  }
  auto* probabilities =
      reinterpret_cast<uint8_t*>(keys.probabilities) + part.first_row * kScoreStride;
  float row_scales[kQueryTile];
  setup_.kernels.quantise_probabilities(
      {.probabilities = keys.ScoreRow(part.first_row) + part.begin,
       .stride = kScoreStride,
       .rows = part.rows,
       .cols = part.end - part.begin,
       .largest = buffers_.largest + part.first_row,
       .target = probabilities + part.begin,
       .row_scales = row_scales});
  const int64_t padded_rows = AttentionPlan::PaddedRows(part.rows);
  for (int64_t col = part.begin; col < part.end; col += ChainLength(part, col)) {
    const int64_t count = ChainLength(part, col);
    const std::byte* values = Values(keys.first_key + col);
    const bool continues = col > part.begin;
    if (setup_.has_few_rows) {
      AddChain({TypesOfFewRows(), part.rows, count, width, probabilities + col, values},
               buffers_.integer_sums, continues);
    } else {
      plan_.Int8WeightedSum(padded_rows, count, continues)
          .Run(probabilities + col, values, buffers_.integer_sums);
    }
  }
  setup_.kernels.add_scaled({.sums = buffers_.integer_sums,
                             .row_scales = row_scales,
                             .rows = part.rows,
                             .cols = width,
                             .target = accumulator});
}

/// In the products zeros replace the elements that are not finite. Those to which a row attends are
/// added to it afterwards: they make an element infinite or NaN wherever in a sum they stand.
void TileProducts::AddVisibleValues(const KeyTile& keys, const Rectangle& part,
                                    bool accumulate) const {
  NonFiniteValues values;
  for (int64_t col = part.begin; col < part.end; col += kKeyBlock) {
    CopyValues(keys.first_key, col);
    if (!setup_.ValuesAreFinite(keys.first_key + col)) {
      ClearNonFinite(col, values);
    }
  }
  AddChains(keys, part, /*is_copied=*/true, accumulate);
  int64_t copied_end = part.begin;
  for (int64_t n = 0; n < values.count; ++n) {
    if (values.columns[n] >= copied_end) {
      const int64_t block = values.columns[n] / kKeyBlock * kKeyBlock;
      CopyValues(keys.first_key, block);
      copied_end = block + kKeyBlock;
    }
  }
  for (int64_t row = part.first_row; row < part.first_row + part.rows; ++row) {
    FindVisible(keys, row, part, values);
  }
  for (int64_t element = 0; element < plan_.value_width(); element += kElementsAtATime) {
    AddNonFinite(part, element, values);
  }
}

/// Copies the values of a key block as one panel.
void TileProducts::CopyPanels(int64_t key, std::byte* target) const {
  const int64_t row_bytes = plan_.value_width() * setup_.element_bytes;
  const int64_t bytes = ValueColumns(key) * setup_.element_bytes;
  const std::byte* values = Values(key);
  if (bytes == row_bytes) {
    std::memcpy(target, values, kKeyBlock * row_bytes);
    return;
  }
  for (int64_t first = 0; first < row_bytes; first += bytes) {
    for (int64_t i = 0; i < kKeyBlock; ++i) {
      std::memcpy(target + i * row_bytes + first, values + i * bytes, bytes);
    }
    values += setup_.PageOf(key).panel_bytes;
  }
}

/// Copies the values of the key block at column `col` to values_copy, in the compute type.
void TileProducts::CopyValues(int64_t first_key, int64_t col) const {
  const int64_t width = plan_.value_width();
  if (setup_.widens()) {
    setup_.kernels.expand({.source = Values(first_key + col),
                           .rows = kKeyBlock,
                           .cols = width,
                           .target = static_cast<float*>(buffers_.values_copy) + col * width});
  } else {
    CopyPanels(first_key + col,
               static_cast<std::byte*>(buffers_.values_copy) + col * width * setup_.element_bytes);
  }
}

/// The elements of a copied value from `first` on: bits of T, at T's index in the copy.
template <typename T>
struct TileProducts::Elements {
  T& operator[](int64_t i) const {
    return values[ValueIndex(col, first + i, width, sizeof(float) / sizeof(T))];
  }
  /// Returns the bits of the element as f32.
  uint32_t Bits(int64_t i) const { return uint32_t{(*this)[i]} << 8 * (sizeof(float) - sizeof(T)); }

  T* values;
  int64_t width;
  int64_t col;
  int64_t first;
};

/// Calls f(Elements<T>) for the compute type.
template <typename F>
auto TileProducts::WithElements(int64_t col, int64_t first, const F& f) const {
  void* const values = buffers_.values_copy;
  const int64_t width = plan_.value_width();
  return setup_.bf16() ? f(Elements<uint16_t>{static_cast<uint16_t*>(values), width, col, first})
                       : f(Elements<uint32_t>{static_cast<uint32_t*>(values), width, col, first});
}

/// Replaces the elements of the copied key block at `col` that are not finite by zeros, and adds
/// their columns to `values`.
void TileProducts::ClearNonFinite(int64_t col, NonFiniteValues& values) const {
  const int64_t width = plan_.value_width();
  for (int64_t i = col; i < col + kKeyBlock; ++i) {
    WithElements(i, 0, [&](const auto& elements) {
      uint32_t largest = 0;  // without its sign
      for (int64_t e = 0; e < width; ++e) {
        largest = std::max(largest, elements.Bits(e) & ~kSign);
      }
      if (largest < kInfinity) {
        return;
      }
      values.columns[values.count++] = static_cast<int16_t>(i);
      for (int64_t e = 0; e < width; ++e) {
        elements[e] = (elements.Bits(e) & ~kSign) < kInfinity ? elements[e] : 0;
      }
    });
  }
}

/// Finds those of `values` to whose keys the row attends.
void TileProducts::FindVisible(const KeyTile& keys, int64_t row, const Rectangle& part,
                               NonFiniteValues& values) const {
  constexpr uint16_t kExponent = 0x7f80;  // products of bf16 take numbers below the normal as zero
  const FlashSequence& sequence = setup_.sequence;
  const int64_t head = setup_.HeadOf(row);
  const int64_t query_row = setup_.RowOf(row);
  const int64_t end = std::clamp(sequence.kv_len() - keys.first_key, part.begin, part.end);
  float marks[kKeyTile] = {};
  sequence.visibility().Hide(head, query_row, {keys.first_key + part.begin, keys.first_key + end},
                             marks + part.begin);
  const Bias& bias = sequence.options.bias;
  const float* const biases =
      bias.data != nullptr ? bias.Row(head, query_row) + keys.first_key : marks;
  const float* const floats = keys.ScoreRow(row);
  const uint16_t* const halves = keys.probabilities + row * kScoreStride;
  const bool bf16 = setup_.bf16();
  for (int64_t n = 0; n < values.count; ++n) {
    const int64_t col = values.columns[n];
    if (col < end && marks[col] != kMinusInfinity && biases[col] != kMinusInfinity) {
      const bool is_zero = bf16 ? (halves[col] & kExponent) == 0 : floats[col] == 0;
      values.weighted[row].Add(n, !is_zero);
      values.times_zero[row].Add(n, is_zero);
    }
  }
}

/// Adds the values that are not finite to kElementsAtATime elements of the rows, from element
/// `first` on. A probability of zero makes NaN of them, as in a product.
void TileProducts::AddNonFinite(const Rectangle& part, int64_t first,
                                const NonFiniteValues& values) const {
  const int64_t count = std::min(kElementsAtATime, plan_.value_width() - first);
  NonFiniteElements of_key[kKeyTile];
  for (int64_t n = 0; n < values.count; ++n) {
    WithElements(values.columns[n], first, [&](const auto& elements) {
      for (int64_t e = 0; e < count; ++e) {
        of_key[n].Add(e, elements.Bits(e));
      }
    });
  }
  for (int64_t row = part.first_row; row < part.first_row + part.rows; ++row) {
    NonFiniteElements sum;
    values.weighted[row].ForEach([&](int64_t n) { sum.Add(of_key[n]); });
    values.times_zero[row].ForEach([&](int64_t n) { sum.AddTimesZero(of_key[n]); });
    sum.AddTo(AccumulatorRow(row) + first);
  }
}

}  // namespace attention
