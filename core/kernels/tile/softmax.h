// Online softmax (Milakov & Gimelshein 2018, algorithm 3) of one key tile. The file of each
// instruction set includes it.
#pragma once

#include <type_traits>

#include "core/kernels/tile/row_exponent.h"
#include "core/kernels/tile/tile_kernels.h"
#include "core/kernels/tile/vec16.h"

namespace attention {
namespace {

constexpr float kMinusInfinity = -__builtin_inff();

/// The first `count` numbers of a row.
struct RowPart {
  const float* row = nullptr;
  int64_t count = 0;
};

/// Finds the maximum of numbers that are given in several steps.
struct RunningMax {
  /// Takes 64 numbers.
  void Take(const float* numbers) {
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      best[k] = Max(best[k], Load(numbers + 16 * k));
    }
  }
  /// Takes the numbers of `part` from the one at `first` on, and returns the maximum of all.
  float Finish(RowPart part, int64_t first) {
    int64_t i = first;
    for (; i + 64 <= part.count; i += 64) {
      Take(part.row + i);
    }
    for (; i + 16 <= part.count; i += 16) {
      best[0] = Max(best[0], Load(part.row + i));
    }
    if (i < part.count) {
      best[1] = Max(best[1], LoadFirst(part.row + i, part.count - i, kMinusInfinity));
    }
    return ReduceMax(Max(Max(best[0], best[1]), Max(best[2], best[3])));
  }

  Vec best[4] = {Set(kMinusInfinity), Set(kMinusInfinity), Set(kMinusInfinity),
                 Set(kMinusInfinity)};
};

inline float MaxOf(RowPart part) { return RunningMax().Finish(part, 0); }

inline void ScaleRow(float* row, int64_t count, float factor) {
  for (int64_t i = 0; i < count; i += 16) {
    Store(Load(row + i) * factor, row + i);
  }
}

/// Writes the probabilities of a row to memory, 16 or 32 at a time from column i on.
struct ToFloats {
  /// Whether Exponentials works on a copy of this.
  static constexpr bool kIsCopied = false;
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
  /// A copy keeps the sums in registers. On AVX2 it is slower.
  static constexpr bool kIsCopied = kRegisterLanes != 8;
  float* target;
  const float* scales;
  Vec best = {};
  Vec check = {};  // becomes NaN with a product that is not finite

  // On AVX2 the compiler would not inline it.
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
  /// Returns the largest product so far, or NaN.
  float Largest() const { return ReduceMax(best) + ReduceSum(check); }
};

#ifdef __AVX512BF16__
/// Does the same as ToFloats, rounded to bf16.
struct ToBf16 {
  static constexpr bool kIsCopied = false;
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

/// Whether the maximum of a row is found while the probabilities of another row are computed. With
/// sixteen registers that is slower.
constexpr bool kLooksAhead = sizeof(Register) == 64;

struct SumAndMax {
  float sum;
  float max_ahead;
};

/// Returns sum + p. Where the polynomial is short, AVX-512 has fewer multiplications than
/// additions: there it is a multiply-add, with the same bits.
template <typename Exp2>
inline Vec AddPower(Vec p, Vec sum) {
#ifdef __AVX512F__
  if constexpr (Exp2::kDegree < 5) {
    return MulAdd(p, Set(1.0f), sum);
  }
#endif
  return sum + p;
}

/// Writes 2^exponent for the first `visible` of `cols` columns, and zeros for the others. Returns
/// the sum. It is the sum of 16 * kSums partial sums, and the column alone decides to which one it
/// is added, so that zeros at the end change no bit. The power of a score of -infinity, which
/// hides its key, is 0. With kLooksAhead, meanwhile it finds the maximum of another row, `ahead`,
/// on units that are idle otherwise.
template <typename Exp2, typename Exponent, typename Target>
inline SumAndMax Exponentials(const float* row, int64_t visible, int64_t cols, Exponent exponent,
                              Target& row_target, RowPart ahead) {
  std::conditional_t<Target::kIsCopied, Target, Target&> target = row_target;
  const auto power = [&](Vec scores) { return PowerOfTwo<Exp2>(exponent.Of(scores)); };
  Vec sum[kSums] = {};
  int64_t i = 0;
  const auto step = [&]() __attribute__((always_inline)) {
#pragma GCC unroll 2
    for (int k = 0; k < kSums; k += 2) {
      const Vec p = power(Load(row + i + 16 * k));
      const Vec q = power(Load(row + i + 16 * k + 16));
      sum[k] = AddPower<Exp2>(p, sum[k]);
      sum[k + 1] = AddPower<Exp2>(q, sum[k + 1]);
      target.PutTwo(i + 16 * k, p, q);
    }
    i += 16 * kSums;
  };
  RunningMax max_ahead;
  int64_t taken = 0;
  if constexpr (kLooksAhead) {
    taken = (visible < ahead.count ? visible : ahead.count) / 64 * 64;
    while (i < taken) {  // NOLINT(bugprone-infinite-loop): step adds to i
      max_ahead.Take(ahead.row + i);
      step();
    }
  }
  while (i + 16 * kSums <= visible) {
    step();
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
    sum[k] = AddPower<Exp2>(p, sum[k]);
    target.Put(i, p);
    i += 16;
  }
  for (; i < cols; i += 16) {
    target.Put(i, Vec{});
  }
  const Vec total =
      kSums == 4 ? (sum[0] + sum[1]) + (sum[kSums - 2] + sum[kSums - 1]) : sum[0] + sum[1];
  if constexpr (Target::kIsCopied) {
    row_target = target;
  }
  return {ReduceSum(total), kLooksAhead ? max_ahead.Finish(ahead, taken) : 0.0f};
}

/// Raises the running maximum of row `r` to the maximum of the tile, and rescales the sum and the
/// accumulator, which are relative to the old one.
inline void UpdateMax(const SoftmaxTile& tile, int64_t r, float tile_max) {
  const float old_max = tile.row_max[r];
  if (!(tile_max > old_max)) {
    return;
  }
  tile.row_max[r] = tile_max;
  if (!tile.is_first) {
    const double exponent =
        RowExponent(old_max, tile.scale_log2e) - RowExponent(tile_max, tile.scale_log2e);
    const float factor = First(PowerOfTwo<Exp2Degree5>(Set(static_cast<float>(exponent))));
    tile.row_sum[r] *= factor;
    ScaleRow(tile.accumulator + r * tile.accumulator_cols, tile.accumulator_cols, factor);
  }
}

/// Writes the probabilities of row `r`, adds them to its sum, and returns the maximum of `ahead`.
template <typename Exp2, typename Target>
inline float SoftmaxTileRow(const SoftmaxTile& tile, int64_t r, RowPart ahead, Target&& target) {
  const float* row = tile.scores + r * tile.stride;
  const int64_t visible = tile.visible_end[r];
  if (tile.row_max[r] == kMinusInfinity) {  // all scores so far are -infinity or NaN
    for (int64_t i = 0; i < visible; ++i) {
      tile.row_sum[r] += row[i] == row[i] ? 0.0f : row[i];
    }
    for (int64_t i = 0; i < tile.cols; i += 16) {
      target.Put(i, Vec{});
    }
    return kLooksAhead ? MaxOf(ahead) : 0.0f;
  }
  const SumAndMax result = WithExponent(tile.row_max[r], tile.scale_log2e, [&](auto exponent) {
    return Exponentials<Exp2>(row, visible, tile.cols, exponent, target, ahead);
  });
  tile.row_sum[r] += result.sum;
  return result.max_ahead;
}

/// SoftmaxTileRow in the way that is fastest on the processor.
template <typename Exp2, typename Target>
inline float SoftmaxRow(const SoftmaxTile& tile, int64_t r, RowPart ahead, Target&& target) {
#ifdef __AVX512F__
  if (tile.processor.is_intel) {
    return SoftmaxTileRow<OnIntel<Exp2>>(tile, r, ahead, target);
  }
#endif
  return SoftmaxTileRow<Exp2>(tile, r, ahead, target);
}

inline float ProbabilitiesOfRow(const SoftmaxTile& tile, int64_t r, RowPart ahead) {
#ifdef __AVX512BF16__
  if (tile.bf16_probabilities != nullptr) {
    return SoftmaxRow<Exp2Degree3>(tile, r, ahead,
                                   ToBf16{tile.bf16_probabilities + r * tile.stride});
  }
#endif
  float* row = tile.scores + r * tile.stride;
  if (tile.value_scales != nullptr) {
    ToScaledFloats target{row, tile.value_scales};
    const float max_ahead = SoftmaxRow<Exp2Degree3>(tile, r, ahead, target);
    tile.largest[r] = target.Largest();
    return max_ahead;
  }
  return SoftmaxRow<Exp2Degree5>(tile, r, ahead, ToFloats{row});
}

/// The maximum of a row is found so many rows before its probabilities: the processor overlaps this
/// independent work, and the rows stay in the L1 cache.
constexpr int64_t kRowsAhead = 4;

inline void Softmax(const SoftmaxTile& tile) {
  const auto part = [&tile](int64_t r) {
    return r < tile.rows ? RowPart{tile.scores + r * tile.stride, tile.visible_end[r]} : RowPart{};
  };
  float tile_max[kRowsAhead];
  for (int64_t r = 0; r < tile.rows; ++r) {
    if (kLooksAhead ? r == 0 : r % kRowsAhead == 0) {
      for (int64_t k = 0; k < kRowsAhead; ++k) {
        tile_max[k] = MaxOf(part(r + k));
      }
    }
    PrefetchSome(tile.upcoming);
    UpdateMax(tile, r, tile_max[r % kRowsAhead]);
    const float max_ahead = ProbabilitiesOfRow(tile, r, part(r + kRowsAhead));
    if (kLooksAhead) {
      tile_max[r % kRowsAhead] = max_ahead;
    }
  }
}

}  // namespace
}  // namespace attention
