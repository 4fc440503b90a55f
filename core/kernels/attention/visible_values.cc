// Weighted sums of values that are not finite, which must not reach the rows from which their keys
// are hidden, although 0 * NaN is NaN.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "core/kernels/attention/tile_products.h"

namespace attention {
namespace {

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

/// In the products zeros replace the elements that are not finite. Those to which a row attends are
/// added to it afterwards: they make an element infinite or NaN wherever in a sum they stand.
void TileProducts::AddVisibleValues(const KeyTile& keys, const Rectangle& rectangle,
                                    bool accumulate) const {
  NonFiniteValues values;
  for (int64_t col = rectangle.begin; col < rectangle.end; col += kKeyBlock) {
    CopyValues(keys.first_key, col);
    if (!setup_.ValuesAreFinite(keys.first_key + col)) {
      ClearNonFinite(col, values);
    }
  }
  AddChains(keys, rectangle, /*is_copied=*/true, accumulate);
  int64_t copied_end = rectangle.begin;
  for (int64_t n = 0; n < values.count; ++n) {
    if (values.columns[n] >= copied_end) {
      const int64_t block = values.columns[n] / kKeyBlock * kKeyBlock;
      CopyValues(keys.first_key, block);
      copied_end = block + kKeyBlock;
    }
  }
  for (int64_t row = rectangle.first_row; row < rectangle.first_row + rectangle.rows; ++row) {
    FindVisible(keys, row, rectangle, values);
  }
  for (int64_t element = 0; element < plan_.value_width(); element += kElementsAtATime) {
    AddNonFinite(rectangle, element, values);
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

/// Finds those of `values` to whose keys the row attends, among its visible columns.
void TileProducts::FindVisible(const KeyTile& keys, int64_t row, const Rectangle& rectangle,
                               NonFiniteValues& values) const {
  constexpr uint16_t kExponent = 0x7f80;  // products of bf16 take numbers below the normal as zero
  const FlashSequence& sequence = setup_.sequence;
  const int64_t head = setup_.HeadOf(row);
  const int64_t query_row = setup_.RowOf(row);
  const int64_t end = std::clamp(keys.visible_end[row], rectangle.begin, rectangle.end);
  const int64_t begin = std::clamp(keys.visible_begin[row], rectangle.begin, end);
  float marks[kKeyTile] = {};
  sequence.visibility().Hide(head, query_row, {keys.first_key + begin, keys.first_key + end},
                             marks + begin);
  const Bias& bias = sequence.options.bias;
  const float* const biases =
      bias.data != nullptr ? bias.Row(head, query_row) + keys.first_key : marks;
  const float* const floats = keys.ScoreRow(row);
  const uint16_t* const halves = keys.probabilities + row * kScoreStride;
  const bool bf16 = setup_.bf16();
  for (int64_t n = 0; n < values.count; ++n) {
    const int64_t col = values.columns[n];
    if (col >= begin && col < end && marks[col] != kMinusInfinity &&
        biases[col] != kMinusInfinity) {
      const bool is_zero = bf16 ? (halves[col] & kExponent) == 0 : floats[col] == 0;
      values.weighted[row].Add(n, !is_zero);
      values.times_zero[row].Add(n, is_zero);
    }
  }
}

/// Adds the values that are not finite to kElementsAtATime elements of the rows, from element
/// `first` on. A probability of zero makes NaN of them, as in a product.
void TileProducts::AddNonFinite(const Rectangle& rectangle, int64_t first,
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
  for (int64_t row = rectangle.first_row; row < rectangle.first_row + rectangle.rows; ++row) {
    NonFiniteElements sum;
    values.weighted[row].ForEach([&](int64_t n) { sum.Add(of_key[n]); });
    values.times_zero[row].ForEach([&](int64_t n) { sum.AddTimesZero(of_key[n]); });
    sum.AddTo(AccumulatorRow(row) + first);
  }
}

}  // namespace attention
