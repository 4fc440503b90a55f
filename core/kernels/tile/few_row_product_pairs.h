// Few-row products on registers of 256 bits for AVX2, of 128 bits for SSE4.1, and on AVX-512 for
// one row, and for f32 times bf16, where the chains of 512 bits took 1.2 of the time with four
// query heads (Zen 4).
#pragma once

#ifndef __ARM_NEON

#include <immintrin.h>

#include "core/kernels/tile/tile_kernels.h"

namespace attention {
namespace {
namespace pairs {

#ifdef __AVX2__
constexpr int64_t kRegisterBytes = 32;
#else
constexpr int64_t kRegisterBytes = 16;
#endif
constexpr int64_t kLanes = kRegisterBytes / 4;
typedef float Floats __attribute__((vector_size(kRegisterBytes)));
typedef int32_t Integers __attribute__((vector_size(kRegisterBytes)));
typedef int16_t Shorts __attribute__((vector_size(kRegisterBytes)));

inline Floats MultiplyAdd(Floats a, Floats b, Floats c) {
#ifdef __AVX2__
  return _mm256_fmadd_ps(a, b, c);
#else
  return a * b + c;
#endif
}

/// Returns the sum of the two products of 16-bit numbers in each lane.
inline Integers AddProducts(Shorts a, Shorts b) {
#ifdef __AVX2__
  return reinterpret_cast<Integers>(
      _mm256_madd_epi16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#else
  return reinterpret_cast<Integers>(
      _mm_madd_epi16(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
#endif
}

/// Loads a register of floats or integers.
template <typename T>
inline T LoadAs(const char* source) {
  T v;
  __builtin_memcpy(&v, source, sizeof(v));
  return v;
}

/// Whether each element of a is written to all lanes of a register once for all columns: registers
/// of four lanes would spend a fifth of the time on it.
constexpr bool kBroadcastsFirst = kLanes == 4;
constexpr int64_t kElementBytes = kBroadcastsFirst ? kRegisterBytes : 4;

/// Returns 32 bits of a in all lanes, or loads them where kBroadcastsFirst.
template <typename T>
inline T Broadcast(const char* a) {
  if constexpr (kBroadcastsFirst) {
    return LoadAs<T>(a);
  }
  int32_t bits;
  __builtin_memcpy(&bits, a, sizeof(bits));
  return reinterpret_cast<T>(Integers{} + bits);
}

/// How a step is multiplied. A step has 32 bits of each column of b, which are kParts operands,
/// multiplied in the order of k. The sums of consecutive steps begin with Begin, and End makes of
/// them the sums of all steps so far; both are given those of the steps before.
struct F32Chain {
  using Sum = Floats;
  static constexpr int kParts = 1;
  static constexpr int64_t kCachedBytesOfRows = 4096;
  static constexpr bool kSplitsBytes = false;
  template <int kPart>
  static Floats Part(Integers b) {
    return reinterpret_cast<Floats>(b);
  }
  static Sum Step(Sum sum, Floats a, Floats b) { return MultiplyAdd(a, b, sum); }
  static Sum Begin(Sum before) { return before; }
  static Sum End(Sum sum, Sum /*before*/) { return sum; }
};

/// a is f32 and b bf16, which is the upper half of an f32.
struct WidenedBf16Chain : F32Chain {
  static constexpr int kParts = 2;
  static constexpr int64_t kCachedBytesOfRows = 8192;
  template <int kPart>
  static Floats Part(Integers b) {
    return reinterpret_cast<Floats>(kPart == 0 ? b << 16 : b & static_cast<int>(0xffff0000));
  }
};

#ifdef __AVX512BF16__

/// a and b are bf16.
struct Bf16Chain : F32Chain {
  static Sum Step(Sum sum, Floats a, Floats b) {
    return _mm256_dpbf16_ps(sum, reinterpret_cast<__m256bh>(a), reinterpret_cast<__m256bh>(b));
  }
};

#endif

#ifdef __AVXVNNI__

struct Int8Chain {
  using Sum = Integers;
  static constexpr int kParts = 1;
  static constexpr int64_t kCachedBytesOfRows = 8192;
  static constexpr bool kSplitsBytes = false;
  template <int kPart>
  static Integers Part(Integers b) {
    return b;
  }
  static Sum Step(Sum sum, Integers a, Integers b) {
    return reinterpret_cast<Integers>(_mm256_dpbusd_avx_epi32(reinterpret_cast<__m256i>(sum),
                                                              reinterpret_cast<__m256i>(a),
                                                              reinterpret_cast<__m256i>(b)));
  }
  static Sum Begin(Sum before) { return before; }
  static Sum End(Sum sum, Sum /*before*/) { return sum; }
};

#else

/// Multiplies even and odd bytes separately, as 16-bit numbers of 256 times their size, which need
/// no shift to the right: the sums of up to kMostPartSteps steps are exact. SplitBytes has split a.
/// AVX-512 uses it for one row although it has VNNI, with which the same memory took 1.26 of the
/// time (Zen 4).
struct Int8Chain {
  using Sum = Integers;
  static constexpr int kParts = 2;
  static constexpr int64_t kCachedBytesOfRows = 8192;
  static constexpr bool kSplitsBytes = true;
  template <int kPart>
  static Shorts Part(Integers b) {
    const auto odd = reinterpret_cast<Shorts>(b & static_cast<int>(0xff00ff00));
    return kPart == 0 ? reinterpret_cast<Shorts>(b) << 8 : odd;
  }
  static Sum Step(Sum sum, Shorts a, Shorts b) {
    sum += AddProducts(a, b);
    // Otherwise the compiler would add the products first, and run out of registers.
    asm("" : "+x"(sum));
    return sum;
  }
  static Sum Begin(Sum /*before*/) { return Sum{}; }
  static Sum End(Sum sum, Sum before) { return before + (sum >> 8); }
};

#endif

/// The number of bytes of b that stay in the L1 cache while they are multiplied with all rows. For
/// several rows and steps of up to kShortStepBytes, it is Chain::kCachedBytesOfRows. The L2 cache
/// is filled kFarBytes ahead of the next part.
constexpr int64_t kCachedBytes = 8192;
constexpr int64_t kShortStepBytes = 512;
constexpr int64_t kFarBytes = 16384;
/// SSE4.1 is bound by arithmetic with several rows: there it took 1.05 of the time (Zen 4).
constexpr bool kPrefetchesFar = kLanes > 4;
constexpr int64_t kMostSteps = 256;
/// The number of steps whose products of 8 bits, 256 times their size, fit into 32 bits.
constexpr int64_t kMostPartSteps = 64;
/// The number of elements of a row that are broadcast at once.
constexpr int64_t kMostPartElements = 64;

/// Consecutive steps. `a` holds their elements of a, for each row kParts for each step.
struct Part {
  int64_t first_step;
  int64_t steps;
  const char* a;
  int64_t a_stride;
  char* sums;  // [rows, cols], of 32 bits: the sums of all earlier steps
};

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

/// Computes kRows rows of c from `row` on and kVecs * kLanes columns from `col` on, over
/// the steps of `part`.
template <typename Chain, int kRows, int kVecs>
inline void MultiplyBlock(const FewRowProduct& p, const Part& part, int64_t row, int64_t col) {
  const char* a = part.a + row * part.a_stride;
  const char* b = static_cast<const char*>(p.b) + part.first_step * p.b_stride + col * 4;
  char* kept = part.sums + (row * p.cols + col) * 4;
  // The columns are computed in strips, which read memory out of order, so the processor does not
  // prefetch it. The next steps are prefetched here, in order. Few lines can be on their way to the
  // L1 cache at a time, too few to wait for memory: those of several rows come from the L2 cache.
  const char* ahead = static_cast<const char*>(p.b) + (part.first_step + part.steps) * p.b_stride +
                      col * 4 * part.steps;
  typename Chain::Sum sums[kRows][kVecs];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      sums[r][v] = part.first_step == 0 ? typename Chain::Sum{}
                                        : Chain::Begin(LoadAs<typename Chain::Sum>(
                                              kept + r * p.cols * 4 + kRegisterBytes * v));
    }
  }
  for (int64_t step = 0; step < part.steps; ++step) {
    Integers row_of_b[kVecs];
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      row_of_b[v] = LoadAs<Integers>(b + step * p.b_stride + kRegisterBytes * v);
    }
    for (int64_t byte = 0; byte < kVecs * kRegisterBytes; byte += 64) {
      const char* line = ahead + step * kVecs * kRegisterBytes + byte;
      __builtin_prefetch(line);
      if constexpr (kRows > 1 && kPrefetchesFar) {
        _mm_prefetch(line + kFarBytes, _MM_HINT_T1);
      }
    }
    StepPart<Chain, 0>(a, part.a_stride, row_of_b, sums);
    a += kElementBytes;
    if constexpr (Chain::kParts == 2) {
      StepPart<Chain, 1>(a, part.a_stride, row_of_b, sums);
      a += kElementBytes;
    }
  }
  const bool is_last = part.first_step + part.steps == p.steps;
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const char* before = kept + r * p.cols * 4;
    char* c = is_last ? static_cast<char*>(p.c) + (row + r) * p.c_stride + col * 4
                      : kept + r * p.cols * 4;
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      auto sum =
          Chain::End(sums[r][v], part.first_step == 0
                                     ? typename Chain::Sum{}
                                     : LoadAs<typename Chain::Sum>(before + kRegisterBytes * v));
      if (is_last && p.accumulate) {
        sum = LoadAs<typename Chain::Sum>(c + kRegisterBytes * v) + sum;
      }
      __builtin_memcpy(c + kRegisterBytes * v, &sum, sizeof(sum));
    }
  }
}

/// Computes kRows rows and all columns. A block has as many columns as the registers allow.
template <typename Chain, int kRows>
inline void MultiplyRows(const FewRowProduct& p, const Part& part, int64_t row) {
  constexpr int kVecs = 8 / kRows;
  int64_t col = 0;
  for (; col + kVecs * kLanes <= p.cols; col += kVecs * kLanes) {
    MultiplyBlock<Chain, kRows, kVecs>(p, part, row, col);
  }
  for (; col < p.cols; col += 2 * kLanes) {
    MultiplyBlock<Chain, kRows, 2>(p, part, row, col);
  }
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

/// With kIsOneRow, p has one row. It is compiled into its callers: as a function that AVX-512
/// calls, one row of bf16 took 1.25 of the time (Zen 4).
template <typename Chain, bool kIsOneRow>
__attribute__((always_inline)) inline void Multiply(FewRowProduct p) {
  alignas(64) char sums[kFewRows * 512 * 4];
  alignas(64) char broadcast[kBroadcastsFirst ? kFewRows * kMostPartElements * kElementBytes : 1];
  uint32_t split[Chain::kSplitsBytes ? kFewRows * kMostSteps * 2 : 1];
  if constexpr (Chain::kSplitsBytes) {
    SplitBytes(p, split);
    p.a = split;
    p.a_stride = p.steps * Chain::kParts * 4;
  }
  const bool has_short_parts =
      kPrefetchesFar && !kIsOneRow && p.rows > 1 && p.b_stride <= kShortStepBytes;
  int64_t most_steps = (has_short_parts ? Chain::kCachedBytesOfRows : kCachedBytes) / p.b_stride;
  if (most_steps > kMostPartSteps) {
    most_steps = kMostPartSteps;
  }
  if (kBroadcastsFirst && most_steps > kMostPartElements / Chain::kParts) {
    most_steps = kMostPartElements / Chain::kParts;
  }
  for (int64_t step = 0; step < p.steps; step += most_steps) {
    const int64_t steps = p.steps - step < most_steps ? p.steps - step : most_steps;
    Part part{step, steps, static_cast<const char*>(p.a) + step * Chain::kParts * 4, p.a_stride,
              sums};
    if constexpr (kBroadcastsFirst) {
      BroadcastRows(part.a, p.a_stride, p.rows, steps * Chain::kParts, broadcast);
      part.a = broadcast;
      part.a_stride = steps * Chain::kParts * kElementBytes;
    }
    if constexpr (kIsOneRow) {
      MultiplyRows<Chain, 1>(p, part, 0);
      continue;
    }
    int64_t row = 0;
    for (; row + 4 <= p.rows; row += 4) {
      MultiplyRows<Chain, 4>(p, part, row);
    }
    for (; row + 2 <= p.rows; row += 2) {
      MultiplyRows<Chain, 2>(p, part, row);
    }
    if (row < p.rows) {
      MultiplyRows<Chain, 1>(p, part, row);
    }
  }
}

template <typename Chain>
inline void MultiplyAllRows(const FewRowProduct& p) {
  Multiply<Chain, false>(p);
}

}  // namespace pairs
}  // namespace
}  // namespace attention

#endif
