// Few-row products on registers of 512 bits, for AVX-512.
#pragma once

#ifdef __AVX512F__

#include <type_traits>

#include "core/kernels/tile/few_row_product_narrow.h"
#include "core/kernels/tile/tile_kernels.h"
#include "core/kernels/tile/vec16.h"

namespace attention {
namespace {

/// A chain says how the steps of a product are multiplied and added. A step has 32 bits of each
/// column of b, which hold kParts operands: Part<i> returns operand i, and Step adds its product to
/// the sum, in the order of k. Zero is the sum of no steps.
///
/// This chain is of f32.
struct F32Chain {
  using Sum = __m512;
  static constexpr int kParts = 1;
  template <int kPart>
  static __m512i Part(__m512i b) {
    return b;
  }
  static constexpr bool kIsInt8 = false;
  static Sum Zero() { return _mm512_setzero_ps(); }
  static Sum Step(Sum sum, __m512i a, __m512i b) {
    return _mm512_fmadd_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), sum);
  }
  static Sum Load(const void* c) { return _mm512_loadu_ps(c); }
  static Sum Add(Sum a, Sum b) { return a + b; }
  static void Store(Sum sum, void* c) { _mm512_storeu_ps(c, sum); }
};

/// a is f32, and b is bf16, whose elements are the upper halves of f32.
struct WidenedBf16Chain : F32Chain {
  static constexpr int kParts = 2;
  template <int kPart>
  static __m512i Part(__m512i b) {
    return kPart == 0 ? _mm512_slli_epi32(b, 16)
                      : _mm512_and_si512(b, _mm512_set1_epi32(static_cast<int>(0xffff0000)));
  }
};

#ifdef __AVX512BF16__
/// a and b are bf16.
struct Bf16Chain : F32Chain {
  static Sum Step(Sum sum, __m512i a, __m512i b) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
  }
};
#endif

/// a is u8, b is s8, and the sums are int32.
struct Int8Chain {
  using Sum = __m512i;
  static constexpr int kParts = 1;
  template <int kPart>
  static __m512i Part(__m512i b) {
    return b;
  }
  static constexpr bool kIsInt8 = true;
  static Sum Zero() { return _mm512_setzero_si512(); }
#ifdef __AVX512VNNI__
  static Sum Step(Sum sum, __m512i a, __m512i b) { return _mm512_dpbusd_epi32(sum, a, b); }
#else
  /// Multiplies even and odd bytes separately, as 16-bit numbers: the sum of two products is exact.
  static Sum Step(Sum sum, __m512i a, __m512i b) {
    const __m512i even = _mm512_madd_epi16(_mm512_and_si512(a, _mm512_set1_epi16(0xff)),
                                           _mm512_srai_epi16(_mm512_slli_epi16(b, 8), 8));
    const __m512i odd = _mm512_madd_epi16(_mm512_srli_epi16(a, 8), _mm512_srai_epi16(b, 8));
    return _mm512_add_epi32(sum, _mm512_add_epi32(even, odd));
  }
#endif
  static Sum Load(const void* c) { return _mm512_loadu_si512(c); }
  static Sum Add(Sum a, Sum b) { return _mm512_add_epi32(a, b); }
  static void Store(Sum sum, void* c) { _mm512_storeu_si512(c, sum); }
};

/// Consecutive steps. `sums` [rows, cols], of 32 bits, holds the sums of all earlier steps.
struct StepRange {
  int64_t first_step;
  int64_t steps;
  char* sums;
};

/// The first row and column of a rectangle of c.
struct Corner {
  int64_t row;
  int64_t col;
};

/// Adds the products of operand kPart of one step to the sums.
template <typename Chain, int kPart, int kRows, int kVecs>
inline void StepPart(const char* a, int64_t a_stride, const __m512i (&b)[kVecs],
                     typename Chain::Sum (&sums)[kRows][kVecs]) {
  __m512i part_of_b[kVecs];
  for (int v = 0; v < kVecs; ++v) {
    part_of_b[v] = Chain::template Part<kPart>(b[v]);
  }
  for (int r = 0; r < kRows; ++r) {
    int32_t element;
    __builtin_memcpy(&element, a + r * a_stride, 4);
    const __m512i element_of_a = _mm512_set1_epi32(element);
    for (int v = 0; v < kVecs; ++v) {
      sums[r][v] = Chain::Step(sums[r][v], element_of_a, part_of_b[v]);
    }
  }
}

/// Computes the rectangle of kRows rows and kVecs * 16 columns of c from `at` on, over the steps of
/// `range`.
template <typename Chain, Prefetch kPrefetch, int kRows, int kVecs>
inline void MultiplyRectangle(const FewRowProduct& p, const StepRange& range, Corner at) {
  const auto* a =
      static_cast<const char*>(p.a) + at.row * p.a_stride + range.first_step * Chain::kParts * 4;
  const auto* b = static_cast<const char*>(p.b) + range.first_step * p.b_stride + at.col * 4;
  char* kept = range.sums + (at.row * p.cols + at.col) * 4;
  const char* ahead = static_cast<const char*>(p.b) +
                      (range.first_step + range.steps) * p.b_stride + at.col * 4 * range.steps;
  typename Chain::Sum sums[kRows][kVecs];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVecs; ++v) {
      sums[r][v] =
          range.first_step == 0 ? Chain::Zero() : Chain::Load(kept + r * p.cols * 4 + 64 * v);
    }
  }
  for (int64_t step = 0; step < range.steps; ++step) {
    for (int v = 0; v < kVecs && kPrefetch != Prefetch::kNone; ++v) {
      const char* line = ahead + (step * kVecs + v) * 64;
      _mm_prefetch(line, _MM_HINT_T0);
      if constexpr (kPrefetch == Prefetch::kNextAndFar) {
        _mm_prefetch(line + narrow::kFarBytes, _MM_HINT_T1);
      }
    }
    __m512i row_of_b[kVecs];
    for (int v = 0; v < kVecs; ++v) {
      row_of_b[v] = _mm512_loadu_si512(b + step * p.b_stride + 64 * v);
    }
    StepPart<Chain, 0>(a, p.a_stride, row_of_b, sums);
    a += 4;
    if constexpr (Chain::kParts == 2) {
      StepPart<Chain, 1>(a, p.a_stride, row_of_b, sums);
      a += 4;
    }
  }
  const bool is_last = range.first_step + range.steps == p.steps;
  for (int r = 0; r < kRows; ++r) {
    char* c = is_last ? static_cast<char*>(p.c) + (at.row + r) * p.c_stride + at.col * 4
                      : kept + r * p.cols * 4;
    for (int v = 0; v < kVecs; ++v) {
      const auto sum = sums[r][v];
      Chain::Store(is_last && p.accumulate ? Chain::Add(Chain::Load(c + 64 * v), sum) : sum,
                   c + 64 * v);
    }
  }
}

/// Computes kRows rows and all columns. A rectangle has as many columns as the registers allow.
template <typename Chain, Prefetch kPrefetch, int kRows>
inline void MultiplyRows(const FewRowProduct& p, const StepRange& range, int64_t row) {
  int64_t col = 0;
  if constexpr (kRows <= 2) {
    for (; col + 128 <= p.cols; col += 128) {
      MultiplyRectangle<Chain, kPrefetch, kRows, 8>(p, range, {row, col});
    }
  }
  for (; col + 64 <= p.cols; col += 64) {
    MultiplyRectangle<Chain, kPrefetch, kRows, 4>(p, range, {row, col});
  }
  for (; col < p.cols; col += 16) {
    MultiplyRectangle<Chain, kPrefetch, kRows, 1>(p, range, {row, col});
  }
}

/// Computes the whole product. `cached_bytes` of b stay in the L1 cache while they are multiplied
/// with all rows. It is inlined into its callers: as a function of its own, two rows of bf16 took
/// 1.3 times as long (Zen 4, g++ 12), since the compiler ordered its loads otherwise.
template <typename Chain, Prefetch kPrefetch>
__attribute__((always_inline)) inline void MultiplyAllRows(const FewRowProduct& p,
                                                           int64_t cached_bytes) {
  alignas(64) char sums[kFewRows * 512 * 4];
  const int64_t max_steps = cached_bytes / p.b_stride;
  for (int64_t step = 0; step < p.steps; step += max_steps) {
    const StepRange range{step, p.steps - step < max_steps ? p.steps - step : max_steps, sums};
    int64_t row = 0;
    for (; row + 4 <= p.rows; row += 4) {
      MultiplyRows<Chain, kPrefetch, 4>(p, range, row);
    }
    for (; row + 2 <= p.rows; row += 2) {
      MultiplyRows<Chain, kPrefetch, 2>(p, range, row);
    }
    if (row < p.rows) {
      MultiplyRows<Chain, kPrefetch, 1>(p, range, row);
    }
  }
}

/// The number of bytes of b in a product that few rows compute at once.
constexpr int64_t kSmallBytes = 4096;

/// Computes `rows` rows of c, at most kMostRows, and kVecs * 16 columns from column `col` on.
template <typename Chain, int kMostRows, int kVecs>
inline void MultiplySmallRows(const FewRowProduct& p, int64_t rows, Corner at) {
  if constexpr (kMostRows > 1) {
    if (rows < kMostRows) {
      return MultiplySmallRows<Chain, kMostRows - 1, kVecs>(p, rows, at);
    }
  }
  const StepRange all{0, p.steps, static_cast<char*>(p.c)};  // it keeps no sums of earlier steps
  MultiplyRectangle<Chain, Prefetch::kNone, kMostRows, kVecs>(p, all, at);
}

/// Computes a product of a short sequence, whose b needs no prefetches. A sum waits for the one
/// before, so as many sums as the registers allow are computed at once.
template <typename Chain>
inline void MultiplySmall(const FewRowProduct& p) {
  int64_t col = 0;
  for (; col + 64 <= p.cols; col += 64) {
    for (int64_t row = 0; row < p.rows;) {
      const int64_t rows = p.rows - row <= 6 ? p.rows - row : 4;
      MultiplySmallRows<Chain, 6, 4>(p, rows, {row, col});
      row += rows;
    }
  }
  for (; col < p.cols; col += 16) {
    MultiplySmallRows<Chain, kFewRows, 1>(p, p.rows, {0, col});
  }
}

template <typename Chain>
__attribute__((noinline)) void MultiplyInHalfRegisters(const FewRowProduct& p) {
  narrow::MultiplyAllRows<Chain>(p);
}

/// Computes the product of an f32 a and a bf16 b. Registers of 512 bits take 0.90 of the time of
/// 256 bits with eight rows, and 1.2 to 1.3 times as long with four (Zen 4). Intel's processors
/// multiply twice as many numbers at a time with them.
inline void MultiplyWidened(const FewRowProduct& p) {
  if (p.rows == 1 || (p.rows < kFewRows && !p.processor.is_intel)) {
    return MultiplyInHalfRegisters<narrow::WidenedBf16Chain>(p);
  }
  MultiplyAllRows<WidenedBf16Chain, Prefetch::kNext>(p, narrow::kCachedBytes);
}

/// Computes the product with a Chain on registers of 512 bits, or with HalfChain, which has the
/// same bits, on registers of 256 bits. One row takes OneRowChain.
template <typename Chain, typename HalfChain, typename OneRowChain = HalfChain>
__attribute__((noinline)) void MultiplyInRegisters(const FewRowProduct& p) {
  if (p.rows == 1) {
    return narrow::MultiplyRow<OneRowChain>(p);
  }
  if constexpr (!Chain::kIsInt8) {
    if (p.is_short && p.steps * p.cols * 4 <= kSmallBytes) {
      return MultiplySmall<Chain>(p);
    }
  }
  // Two rows read b from its first to its last byte, which a Zen 4 does fastest without
  // instructions that prefetch. A Zen 5 takes 1.4 times as long without them. With three rows each
  // range is read twice, and the processor does not prefetch the next by itself.
  const bool is_zen4 = narrow::IsZen4(p.processor);
  if (is_zen4 && p.rows == 2) {
    return MultiplyAllRows<Chain, Prefetch::kNone>(p, p.b_stride <= 512 ? 4096 : 8192);
  }
  if (is_zen4 && p.rows == 3) {
    return MultiplyAllRows<Chain, Prefetch::kNextAndFar>(p, narrow::kCachedBytes);
  }
  // Registers of 256 bits read memory faster, in the order of their prefetches.
  const bool is_f32 = std::is_same_v<Chain, F32Chain>;
  if (is_zen4 || (is_f32 && p.processor.is_intel)) {
    return MultiplyInHalfRegisters<HalfChain>(p);
  }
  MultiplyAllRows<Chain, Prefetch::kNext>(p, narrow::kCachedBytes);
}

}  // namespace
}  // namespace attention

#endif
