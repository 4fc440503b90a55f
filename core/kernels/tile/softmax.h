// Online softmax (Milakov & Gimelshein 2018, algorithm 3) of one key tile. The file of each
// instruction set includes it.
#pragma once

#include "core/kernels/tile/row_exponent.h"
#include "core/kernels/tile/tile_kernels.h"
#include "core/kernels/tile/vec16.h"

namespace attention {
namespace {

constexpr float kMinusInfinity = -__builtin_inff();

inline float MaxOf(const float* values, int64_t count) {
  Vec best[4] = {Set(kMinusInfinity), Set(kMinusInfinity), Set(kMinusInfinity),
                 Set(kMinusInfinity)};
  int64_t i = 0;
  for (; i + 64 <= count; i += 64) {
    for (int k = 0; k < 4; ++k) {
      best[k] = Max(best[k], Load(values + i + 16 * k));
    }
  }
  for (; i + 16 <= count; i += 16) {
    best[0] = Max(best[0], Load(values + i));
  }
  if (i < count) {
    best[1] = Max(best[1], LoadFirst(values + i, count - i, kMinusInfinity));
  }
  return ReduceMax(Max(Max(best[0], best[1]), Max(best[2], best[3])));
}

inline void ScaleRow(float* row, int64_t count, float factor) {
  for (int64_t i = 0; i < count; i += 16) {
    Store(Load(row + i) * factor, row + i);
  }
}

/// Writes the probabilities of a row to memory, 16 or 32 at a time from column i on.
struct ToFloats {
  float* target;
  void Put(int64_t i, Vec p) const { Store(p, target + i); }
  void PutTwo(int64_t i, Vec p, Vec q) const {
    Put(i, p);
    Put(i + 16, q);
  }
};

/// Does the same, multiplied by the scales of 8-bit values. A probability of 0 stays 0 whatever the
/// scale is.
struct ToScaledFloats {
  float* target;
  const float* scales;
  Vec best = {};
  Vec check = {};  // becomes NaN with a product that is not finite

  // The compiler would call it on AVX2.
  __attribute__((always_inline)) void Put(int64_t i, Vec p) {
    const Vec scaled = IfLess(Vec{}, p, p * Load(scales + i), Vec{});
    best = Max(scaled, best);
    check = MulAdd(scaled, Vec{}, check);
    Store(scaled, target + i);
  }
  __attribute__((always_inline)) void PutTwo(int64_t i, Vec p, Vec q) {
    Put(i, p);
    Put(i + 16, q);
  }
  /// The largest product so far, or NaN.
  float Largest() const { return ReduceMax(best) + ReduceSum(check); }
};

#ifdef __AVX512BF16__
/// Does the same as ToFloats, rounded to bf16.
struct ToBf16 {
  uint16_t* target;
  void Put(int64_t i, Vec p) const { StoreBf16(p, target + i); }
  void PutTwo(int64_t i, Vec p, Vec q) const { StoreTwoBf16(p, q, target + i); }
};
#endif

/// The exponents of 2 of a row's probabilities: score * scale_log2e - offset. The offset is the
/// rounded max * scale_log2e. Since the whole row uses the same offset, its rounding cancels in the
/// normalisation. Beyond kHugeExponent the rounding could exceed the range of exp: such rows
/// (`kIsHuge`) subtract the maximum first, at the cost of one more rounding.
template <bool kIsHuge>
struct Exponent {
  /// Whether an exponent may be -infinity although the score is finite.
  static constexpr bool kMayOverflow = kIsHuge;

  Vec Of(Vec score) const {
    return kIsHuge ? (score - max) * scale : MulAdd(score, scale, -offset);
  }

  Vec scale;
  Vec max;
  Vec offset;
};

/// Calls f(Exponent) with the kind of Exponent for a row with this maximum.
template <typename F>
inline auto WithExponent(float row_max, float scale_log2e, const F& f) {
  const float offset = RoundedProduct(row_max, scale_log2e);
  if (__builtin_fabsf(offset) < kHugeExponent) {
    return f(Exponent<false>{Set(scale_log2e), Set(row_max), Set(offset)});
  }
  return f(Exponent<true>{Set(scale_log2e), Set(row_max), Set(offset)});
}

/// The number of vectors of partial sums. More would not fit into sixteen registers beside the
/// constants of exp, and a loop that keeps its sums in memory takes a third longer.
constexpr int kSums = sizeof(Register) == 64 ? 4 : 2;

/// Writes 2^exponent for the first `visible` of `cols` columns, and zeros for the others. Returns
/// the sum. It is the sum of 16 * kSums partial sums, and the column alone decides to which one it
/// is added, so that zeros at the end change no bit. With kHides, scores may be -infinity, whose
/// power is 0.
template <typename Exp2, bool kHides, typename Exponent, typename Target>
inline float Exponentials(const float* row, int64_t visible, int64_t cols, Exponent exponent,
                          Target& target) {
  const auto power = [&](Vec scores) {
    const Vec t = exponent.Of(scores);
    return kHides || Exponent::kMayOverflow ? PowerOfTwoOrZero<Exp2>(t) : PowerOfTwo<Exp2>(t);
  };
  Vec sum[kSums] = {};
  int64_t i = 0;
  for (; i + 16 * kSums <= visible; i += 16 * kSums) {
#pragma GCC unroll 2
    for (int k = 0; k < kSums; k += 2) {
      const Vec p = power(Load(row + i + 16 * k));
      const Vec q = power(Load(row + i + 16 * k + 16));
      sum[k] += p;
      sum[k + 1] += q;
      target.PutTwo(i + 16 * k, p, q);
    }
  }
  // An index that is not constant would keep the sums in memory.
#pragma GCC unroll 4
  for (int k = 0; k < kSums; ++k) {
    if (i >= visible) {
      break;
    }
    const int64_t left = visible - i;
    const Vec p = left >= 16 ? power(Load(row + i))
                             : KeepFirst(power(LoadFirst(row + i, left, kMinusInfinity)), left);
    sum[k] += p;
    target.Put(i, p);
    i += 16;
  }
  for (; i < cols; i += 16) {
    target.Put(i, Vec{});
  }
  if constexpr (kSums == 4) {
    return ReduceSum((sum[0] + sum[1]) + (sum[2] + sum[3]));
  }
  return ReduceSum(sum[0] + sum[1]);
}

/// Raises the running maximum of row `r` to the maximum of the tile, and rescales the sum and the
/// accumulator, which are relative to the old one.
inline void UpdateMax(const SoftmaxTile& tile, int64_t r) {
  const float old_max = tile.row_max[r];
  const float tile_max = MaxOf(tile.scores + r * tile.stride, tile.visible_end[r]);
  if (!(tile_max > old_max)) {
    return;
  }
  tile.row_max[r] = tile_max;
  if (!tile.is_first) {
    const double exponent =
        RowExponent(old_max, tile.scale_log2e) - RowExponent(tile_max, tile.scale_log2e);
    const float factor = First(PowerOfTwoOrZero<Exp2Degree5>(Set(static_cast<float>(exponent))));
    tile.row_sum[r] *= factor;
    ScaleRow(tile.accumulator + r * tile.accumulator_cols, tile.accumulator_cols, factor);
  }
}

template <typename Exp2, typename Target>
inline void SoftmaxTileRow(const SoftmaxTile& tile, int64_t r, Target&& target) {
  const float* row = tile.scores + r * tile.stride;
  if (tile.row_max[r] == kMinusInfinity) {  // all scores so far are -infinity or NaN
    for (int64_t i = 0; i < tile.visible_end[r]; ++i) {
      tile.row_sum[r] += row[i] == row[i] ? 0.0f : row[i];
    }
    for (int64_t i = 0; i < tile.cols; i += 16) {
      target.Put(i, Vec{});
    }
    return;
  }
  tile.row_sum[r] += WithExponent(tile.row_max[r], tile.scale_log2e, [&](auto exponent) {
    return tile.hides
               ? Exponentials<Exp2, true>(row, tile.visible_end[r], tile.cols, exponent, target)
               : Exponentials<Exp2, false>(row, tile.visible_end[r], tile.cols, exponent, target);
  });
}

/// The number of rows whose maxima are found before their exponentials: the processor overlaps this
/// independent work, and the rows stay in the L1 cache.
constexpr int64_t kOverlappedRows = 4;

inline void Softmax(const SoftmaxTile& tile) {
  for (int64_t first = 0; first < tile.rows; first += kOverlappedRows) {
    const int64_t end = first + kOverlappedRows < tile.rows ? first + kOverlappedRows : tile.rows;
    for (int64_t r = first; r < end; ++r) {
      UpdateMax(tile, r);
    }
    for (int64_t r = first; r < end; ++r) {
#ifdef __AVX512BF16__
      if (tile.bf16_probabilities != nullptr) {
        SoftmaxTileRow<Exp2Degree3>(tile, r, ToBf16{tile.bf16_probabilities + r * tile.stride});
        continue;
      }
#endif
      float* row = tile.scores + r * tile.stride;
      if (tile.value_scales != nullptr) {
        ToScaledFloats target{row, tile.value_scales};
        SoftmaxTileRow<Exp2Degree3>(tile, r, target);
        tile.largest[r] = target.Largest();
        continue;
      }
      SoftmaxTileRow<Exp2Degree5>(tile, r, ToFloats{row});
    }
  }
}

}  // namespace
}  // namespace attention
