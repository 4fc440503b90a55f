// Few-row products on registers of 256 bits for AVX2, and of 128 bits for SSE4.1. AVX-512 uses
// those of 256 bits for one row, for four rows or more on a Zen 4, for several rows of f32 on
// Intel, and for up to seven rows of f32 times bf16.
#pragma once

#ifndef __ARM_NEON

#include <type_traits>

#include "core/kernels/tile/few_row_chains_narrow.h"
#include "core/kernels/tile/tile_kernels.h"

namespace attention {
namespace {

/// How the next steps are prefetched by instruction, in the order of memory.
enum class Prefetch {
  kNone,
  kNext,        // the next range of steps, into the L1 cache
  kNextAndFar,  // the same, and what follows 16 KB later into the L2 cache
};

namespace narrow {

/// The size of the steps of which several rows take ranges of Chain::RangeBytes.
constexpr int64_t kMaxShortStepBytes = 512;
/// The distance from the next range of steps to the memory that is prefetched into the L2 cache.
constexpr int64_t kFarBytes = 16384;

/// Returns whether products of several rows prefetch memory at kFarBytes. SSE4.1 is bound by
/// arithmetic there, and took 1.05 times as long with prefetches (Zen 4). With registers of 256
/// bits a Zen 4 and a Zen 5 need them; a Zen 3, which has no AVX-512, multiplies f32 slower with
/// them.
inline bool PrefetchesFar(const Processor& processor) { return kLanes > 4 && processor.has_avx512; }

inline bool IsZen4(const Processor& processor) {
  return processor.is_zen3_or_4 && processor.has_avx512;
}

/// The maximum number of steps of a product of 8 bits.
constexpr int64_t kMaxSteps = 256;
/// The maximum number of steps of a range: the products of 8 bits, 256 times their size, fit into
/// 32 bits.
constexpr int64_t kMaxRangeSteps = 64;
/// The maximum number of elements of a row that are broadcast at once.
constexpr int64_t kMaxRangeElements = 64;

/// Consecutive steps. `a` holds their elements of a, for each row kParts for each step.
struct StepRange {
  int64_t first_step;
  int64_t steps;
  const char* a;
  int64_t a_stride;
  char* sums;  // [rows, cols], of 32 bits: the sums of all earlier steps
};

/// Adds the products of operand kPart of one step to the sums.
template <typename Chain, int kPart, int kRows, int kVecs>
inline void StepPart(const char* a, int64_t a_stride, const Integers (&b)[kVecs],
                     typename Chain::Sum (&sums)[kRows][kVecs]) {
  using PartOfB = decltype(Chain::template Part<kPart>(b[0]));
  PartOfB part_of_b[kVecs];
#pragma GCC unroll 8
  for (int v = 0; v < kVecs; ++v) {
    part_of_b[v] = Chain::template Part<kPart>(b[v]);
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const auto element_of_a = Broadcast<PartOfB>(a + r * a_stride);
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      sums[r][v] = Chain::Step(sums[r][v], element_of_a, part_of_b[v]);
    }
  }
}

/// Computes the rectangle of kRows rows of c from `row` on and kVecs * kLanes columns from `col`
/// on, over the steps of `range`.
template <typename Chain, int kRows, int kVecs, Prefetch kPrefetch>
inline void MultiplyRectangle(const FewRowProduct& p, const StepRange& range, int64_t row,
                              int64_t col) {
  const char* a = range.a + row * range.a_stride;
  const char* b = static_cast<const char*>(p.b) + range.first_step * p.b_stride + col * 4;
  char* kept = range.sums + (row * p.cols + col) * 4;
  // The rectangles read memory out of order, so the processor does not prefetch it. The next range
  // is prefetched here, in the order of memory. On some processors few lines can be on their way to
  // the L1 cache at a time, too few to wait for memory, so they come from the L2 cache.
  const char* ahead = static_cast<const char*>(p.b) +
                      (range.first_step + range.steps) * p.b_stride + col * 4 * range.steps;
  typename Chain::Sum sums[kRows][kVecs];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      sums[r][v] = range.first_step == 0 ? typename Chain::Sum{}
                                         : Chain::Begin(LoadAs<typename Chain::Sum>(
                                               kept + r * p.cols * 4 + kRegisterBytes * v));
    }
  }
  for (int64_t step = 0; step < range.steps; ++step) {
    Integers row_of_b[kVecs];
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      row_of_b[v] = LoadAs<Integers>(b + step * p.b_stride + kRegisterBytes * v);
    }
    for (int64_t byte = 0; byte < kVecs * kRegisterBytes && kPrefetch != Prefetch::kNone;
         byte += 64) {
      const char* line = ahead + step * kVecs * kRegisterBytes + byte;
      __builtin_prefetch(line);
      if constexpr (kPrefetch == Prefetch::kNextAndFar) {
        _mm_prefetch(line + kFarBytes, _MM_HINT_T1);
      }
    }
    StepPart<Chain, 0>(a, range.a_stride, row_of_b, sums);
    a += kElementBytes;
    if constexpr (Chain::kParts == 2) {
      StepPart<Chain, 1>(a, range.a_stride, row_of_b, sums);
      a += kElementBytes;
    }
  }
  const bool is_last = range.first_step + range.steps == p.steps;
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const char* before = kept + r * p.cols * 4;
    char* c = is_last ? static_cast<char*>(p.c) + (row + r) * p.c_stride + col * 4
                      : kept + r * p.cols * 4;
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      auto sum =
          Chain::End(sums[r][v], range.first_step == 0
                                     ? typename Chain::Sum{}
                                     : LoadAs<typename Chain::Sum>(before + kRegisterBytes * v));
      if (is_last && p.accumulate) {
        sum = LoadAs<typename Chain::Sum>(c + kRegisterBytes * v) + sum;
      }
      __builtin_memcpy(c + kRegisterBytes * v, &sum, sizeof(sum));
    }
  }
}

/// Computes kRows rows and all columns. A rectangle has as many columns as the registers allow.
template <typename Chain, int kRows, Prefetch kPrefetch>
inline void MultiplyRows(const FewRowProduct& p, const StepRange& range, int64_t row) {
  constexpr int kVecs = 8 / kRows;
  int64_t col = 0;
  for (; col + kVecs * kLanes <= p.cols; col += kVecs * kLanes) {
    MultiplyRectangle<Chain, kRows, kVecs, kPrefetch>(p, range, row, col);
  }
  // f32 weights lie in panels of 4 * kLanes columns.
  if constexpr (kVecs > 4 && Chain::kHasPanels) {
    for (; col + 4 * kLanes <= p.cols; col += 4 * kLanes) {
      MultiplyRectangle<Chain, kRows, 4, kPrefetch>(p, range, row, col);
    }
  }
  for (; col < p.cols; col += 2 * kLanes) {
    MultiplyRectangle<Chain, kRows, 2, kPrefetch>(p, range, row, col);
  }
}

/// Computes all rows and columns, over the steps of `range`.
template <typename Chain, Prefetch kPrefetch>
inline void MultiplyRange(const FewRowProduct& p, const StepRange& range) {
  int64_t row = 0;
  for (; row + 4 <= p.rows; row += 4) {
    MultiplyRows<Chain, 4, kPrefetch>(p, range, row);
  }
  for (; row + 2 <= p.rows; row += 2) {
    MultiplyRows<Chain, 2, kPrefetch>(p, range, row);
  }
  if (row < p.rows) {
    MultiplyRows<Chain, 1, Prefetch::kNext>(p, range, row);
  }
}

/// Returns the number of bytes of b in a range of steps.
template <typename Chain, bool kIsOneRow>
inline int64_t RangeBytes(const FewRowProduct& p, bool prefetches_far) {
  if (kLanes == 4 || kIsOneRow || p.b_stride > kMaxShortStepBytes) {
    return kCachedBytes;
  }
  return Chain::RangeBytes(prefetches_far);
}

/// Widens the four bytes of each step of a to 16 bits: the two even ones, then the two odd ones.
inline void SplitBytes(const FewRowProduct& p, uint32_t* target) {
  for (int64_t row = 0; row < p.rows; ++row) {
    const char* a = static_cast<const char*>(p.a) + row * p.a_stride;
    for (int64_t step = 0; step < p.steps; ++step) {
      uint32_t four;
      __builtin_memcpy(&four, a + 4 * step, sizeof(four));
      *target++ = four & 0x00ff00ff;
      *target++ = four >> 8 & 0x00ff00ff;
    }
  }
}

/// Writes `count` elements of each row of a, of 32 bits, to all lanes of a register each.
inline void BroadcastRows(const char* a, int64_t a_stride, int64_t rows, int64_t count,
                          char* target) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < count; ++i, target += kRegisterBytes) {
      int32_t bits;
      __builtin_memcpy(&bits, a + row * a_stride + i * 4, sizeof(bits));
      const Integers lanes = Integers{} + bits;
      __builtin_memcpy(target, &lanes, sizeof(lanes));
    }
  }
}

/// Computes the whole product. REQUIRES with kIsOneRow: p has one row, which prefetches as
/// kOfOneRow says. It is inlined into its callers: as a function that AVX-512 calls, one row of
/// bf16 took 1.25 times as long (Zen 4).
template <typename Chain, bool kIsOneRow, Prefetch kOfOneRow = Prefetch::kNext>
__attribute__((always_inline)) inline void Multiply(FewRowProduct p) {
  alignas(64) char sums[kFewRows * 512 * 4];
  alignas(64) char broadcast[kBroadcastsFirst ? kFewRows * kMaxRangeElements * kElementBytes : 1];
  uint32_t split[Chain::kSplitsBytes ? kFewRows * kMaxSteps * 2 : 1];
  if constexpr (Chain::kSplitsBytes) {
    SplitBytes(p, split);
    p.a = split;
    p.a_stride = p.steps * Chain::kParts * 4;
  }
  const bool prefetches_far = !kIsOneRow && PrefetchesFar(p.processor);
  int64_t max_steps = RangeBytes<Chain, kIsOneRow>(p, prefetches_far) / p.b_stride;
  if (max_steps > kMaxRangeSteps) {
    max_steps = kMaxRangeSteps;
  }
  if (kBroadcastsFirst && max_steps > kMaxRangeElements / Chain::kParts) {
    max_steps = kMaxRangeElements / Chain::kParts;
  }
  for (int64_t step = 0; step < p.steps; step += max_steps) {
    const int64_t steps = p.steps - step < max_steps ? p.steps - step : max_steps;
    StepRange range{step, steps, static_cast<const char*>(p.a) + step * Chain::kParts * 4,
                    p.a_stride, sums};
    if constexpr (kBroadcastsFirst) {
      BroadcastRows(range.a, p.a_stride, p.rows, steps * Chain::kParts, broadcast);
      range.a = broadcast;
      range.a_stride = steps * Chain::kParts * kElementBytes;
    }
    if constexpr (kIsOneRow) {
      MultiplyRows<Chain, 1, kOfOneRow>(p, range, 0);
    } else if (prefetches_far) {
      MultiplyRange<Chain, Prefetch::kNextAndFar>(p, range);
    } else {
      MultiplyRange<Chain, Prefetch::kNext>(p, range);
    }
  }
}

/// REQUIRES: p has one row. A Zen 4 reads memory fastest without instructions that prefetch. But
/// without them registers of 128 bits took up to 1.4 times as long, and bf16 weights that are
/// widened up to 1.3 times.
template <typename Chain>
__attribute__((always_inline)) inline void MultiplyRow(const FewRowProduct& p) {
  constexpr bool kPrefetches = kLanes == 4 || std::is_same_v<Chain, WidenedBf16Chain>;
  if (!kPrefetches && IsZen4(p.processor)) {
    return Multiply<Chain, true, Prefetch::kNone>(p);
  }
  Multiply<Chain, true, Prefetch::kNext>(p);
}

template <typename Chain>
inline void MultiplyAllRows(const FewRowProduct& p) {
  if (p.rows == 1) {
    return MultiplyRow<Chain>(p);
  }
  Multiply<Chain, false>(p);
}

}  // namespace narrow
}  // namespace
}  // namespace attention

#endif
