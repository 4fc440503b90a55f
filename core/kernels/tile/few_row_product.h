// Few-row products: products of up to kFewRows rows with much packed memory, which decoding
// consists of. Every element has the bits of the brgemm ukernels: one chain of multiply-adds in the
// order of k. What is prefetched by instruction is prefetched in the order of memory. The
// file of each instruction set includes it; NEON has no few-row products.
#pragma once

#include "core/kernels/tile/few_row_product_pairs.h"
#include "core/kernels/tile/tile_kernels.h"
#include "core/kernels/tile/vec16.h"

namespace attention {
namespace {

#ifdef __AVX512F__

struct F32Chain {
  using Sum = __m512;
  static constexpr bool kIsInt8 = false;
  static Sum Zero() { return _mm512_setzero_ps(); }
  static Sum Step(Sum sum, __m512i a, __m512i b) {
    return _mm512_fmadd_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), sum);
  }
  static Sum Load(const void* c) { return _mm512_loadu_ps(c); }
  static Sum Add(Sum a, Sum b) { return a + b; }
  static void Store(Sum sum, void* c) { _mm512_storeu_ps(c, sum); }
};

#ifdef __AVX512BF16__
struct Bf16Chain : F32Chain {
  static Sum Step(Sum sum, __m512i a, __m512i b) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
  }
};
#endif

struct Int8Chain {
  using Sum = __m512i;
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

/// How the next steps are prefetched by instruction, in the order of memory.
enum class Prefetch {
  kNone,
  kNext,        // the next part, into the L1 cache
  kNextAndFar,  // the same, and what follows 16 KB later into the L2 cache
};

/// Whether the processor reads b faster when nothing is prefetched by instruction: Zen 4 does,
/// while Zen 5 takes 1.4 of the time then (tests/bench/RESULTS.md).
inline bool PrefetchesAlone() { return __builtin_cpu_is("amdfam19h"); }

/// Consecutive steps. `sums` [rows, cols], of 32 bits, holds the sums of all earlier steps.
struct StepRange {
  int64_t first_step;
  int64_t steps;
  char* sums;
};

/// The first row and column of a block of c.
struct BlockPlace {
  int64_t row;
  int64_t col;
};

/// Computes kRows rows and kVecs * 16 columns of c from `at` on, over the steps of `part`.
template <typename Chain, Prefetch kPrefetch, int kRows, int kVecs>
inline void MultiplyBlock(const FewRowProduct& p, const StepRange& part, BlockPlace at) {
  const auto* a = static_cast<const char*>(p.a) + at.row * p.a_stride + part.first_step * 4;
  const auto* b = static_cast<const char*>(p.b) + part.first_step * p.b_stride + at.col * 4;
  char* kept = part.sums + (at.row * p.cols + at.col) * 4;
  const char* ahead = static_cast<const char*>(p.b) + (part.first_step + part.steps) * p.b_stride +
                      at.col * 4 * part.steps;
  typename Chain::Sum sums[kRows][kVecs];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVecs; ++v) {
      sums[r][v] =
          part.first_step == 0 ? Chain::Zero() : Chain::Load(kept + r * p.cols * 4 + 64 * v);
    }
  }
  for (int64_t step = 0; step < part.steps; ++step) {
    for (int v = 0; v < kVecs && kPrefetch != Prefetch::kNone; ++v) {
      const char* line = ahead + (step * kVecs + v) * 64;
      _mm_prefetch(line, _MM_HINT_T0);
      if constexpr (kPrefetch == Prefetch::kNextAndFar) {
        _mm_prefetch(line + 16384, _MM_HINT_T1);
      }
    }
    __m512i row_of_b[kVecs];
    for (int v = 0; v < kVecs; ++v) {
      row_of_b[v] = _mm512_loadu_si512(b + step * p.b_stride + 64 * v);
    }
    for (int r = 0; r < kRows; ++r) {
      int32_t element;
      __builtin_memcpy(&element, a + r * p.a_stride + step * 4, 4);
      const __m512i element_of_a = _mm512_set1_epi32(element);
      for (int v = 0; v < kVecs; ++v) {
        sums[r][v] = Chain::Step(sums[r][v], element_of_a, row_of_b[v]);
      }
    }
  }
  const bool is_last = part.first_step + part.steps == p.steps;
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

/// Computes kRows rows and all columns. A block has as many columns as the registers allow, since
/// the processor does not prefetch memory that is read out of order.
template <typename Chain, Prefetch kPrefetch, int kRows>
inline void MultiplyRows(const FewRowProduct& p, const StepRange& part, int64_t row) {
  int64_t col = 0;
  if constexpr (kRows <= 2) {
    for (; col + 128 <= p.cols; col += 128) {
      MultiplyBlock<Chain, kPrefetch, kRows, 8>(p, part, {row, col});
    }
  }
  for (; col + 64 <= p.cols; col += 64) {
    MultiplyBlock<Chain, kPrefetch, kRows, 4>(p, part, {row, col});
  }
  for (; col < p.cols; col += 16) {
    MultiplyBlock<Chain, kPrefetch, kRows, 1>(p, part, {row, col});
  }
}

/// `cached_bytes` of b stay in the L1 cache while they are multiplied with all rows.
template <typename Chain, Prefetch kPrefetch>
inline void MultiplyAllRows(const FewRowProduct& p, int64_t cached_bytes) {
  alignas(64) char sums[kFewRows * 512 * 4];
  const int64_t most_rows = p.cols <= 64 ? 4 : 2;
  const int64_t most_steps = cached_bytes / p.b_stride;
  for (int64_t step = 0; step < p.steps; step += most_steps) {
    const StepRange part{step, p.steps - step < most_steps ? p.steps - step : most_steps, sums};
    for (int64_t row = 0; row < p.rows;) {
      const int64_t left = p.rows - row;
      if (most_rows == 4 && left >= 4) {
        MultiplyRows<Chain, kPrefetch, 4>(p, part, row);
        row += 4;
      } else if (left >= 2) {
        MultiplyRows<Chain, kPrefetch, 2>(p, part, row);
        row += 2;
      } else {
        MultiplyRows<Chain, kPrefetch, 1>(p, part, row);
        row += 1;
      }
    }
  }
}

/// With Chain of registers of 512 bits, or the same chain of 256 bits for one row.
template <typename Chain, typename ChainOfOneRow>
__attribute__((noinline)) void MultiplyInRegisters(const FewRowProduct& p) {
  if (p.rows == 1) {
    return pairs::Multiply<ChainOfOneRow, true>(p);
  }
  if constexpr (Chain::kIsInt8) {
    return MultiplyAllRows<Chain, Prefetch::kNextAndFar>(p, 8192);
  }
  if (PrefetchesAlone()) {
    return MultiplyAllRows<Chain, Prefetch::kNone>(p, p.b_stride <= 512 ? 4096 : 8192);
  }
  return MultiplyAllRows<Chain, Prefetch::kNext>(p, 8192);
}

#ifdef __AVX512BF16__

/// While it lives, subnormal numbers count as zero on this thread, as in a matrix unit.
class FlushToZero {
 public:
  FlushToZero() : before_(_mm_getcsr()) { _mm_setcsr(before_ | kFlushAndDenormalsAreZero); }
  ~FlushToZero() { _mm_setcsr(before_); }
  FlushToZero(const FlushToZero&) = delete;
  FlushToZero& operator=(const FlushToZero&) = delete;

 private:
  static constexpr unsigned kFlushAndDenormalsAreZero = 0x8040;
  const unsigned before_;
};

/// The elements of a that are multiplied at once by a matrix unit, as f32: [row][step][even, odd].
using SplitRows = float[kFewRows][16][2];

/// Computes kRows rows and kVecs * 16 columns of c over tile_steps steps from `first_step` on, with
/// the bits of AMX (TDPBF16PS in Intel's Software Developer's Manual): the products of the even and
/// of the odd elements are two chains of multiply-adds that begin at 0; their sum is added to c.
template <int kRows, int kVecs>
inline void MatrixBlock(const FewRowProduct& p, const SplitRows& a, int64_t first_step,
                        BlockPlace at) {
  const auto* b = static_cast<const char*>(p.b) + first_step * p.b_stride + at.col * 4;
  // In the order of memory, as in MultiplyBlock.
  const char* ahead = static_cast<const char*>(p.b) + (first_step + p.tile_steps) * p.b_stride +
                      at.col * 4 * p.tile_steps;
  __m512 even[kRows][kVecs];
  __m512 odd[kRows][kVecs];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVecs; ++v) {
      even[r][v] = odd[r][v] = _mm512_setzero_ps();
    }
  }
  for (int64_t step = 0; step < p.tile_steps; ++step) {
    __m512 even_of_b[kVecs];
    __m512 odd_of_b[kVecs];
    for (int v = 0; v < kVecs; ++v) {
      _mm_prefetch(ahead + (step * kVecs + v) * 64, _MM_HINT_T0);
      const __m512i pairs = _mm512_loadu_si512(b + step * p.b_stride + 64 * v);
      even_of_b[v] = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
      odd_of_b[v] = _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(~0xffff)));
    }
    for (int r = 0; r < kRows; ++r) {
      const __m512 even_of_a = _mm512_set1_ps(a[at.row + r][step][0]);
      const __m512 odd_of_a = _mm512_set1_ps(a[at.row + r][step][1]);
      for (int v = 0; v < kVecs; ++v) {
        even[r][v] = _mm512_fmadd_ps(even_of_a, even_of_b[v], even[r][v]);
        odd[r][v] = _mm512_fmadd_ps(odd_of_a, odd_of_b[v], odd[r][v]);
      }
    }
  }
  const bool adds = p.accumulate || first_step > 0;
  for (int r = 0; r < kRows; ++r) {
    char* c = static_cast<char*>(p.c) + (at.row + r) * p.c_stride + at.col * 4;
    for (int v = 0; v < kVecs; ++v) {
      const __m512 before = adds ? _mm512_loadu_ps(c + 64 * v) : _mm512_setzero_ps();
      _mm512_storeu_ps(c + 64 * v, before + (even[r][v] + odd[r][v]));
    }
  }
}

/// Computes kRows rows and all columns, with at most 16 sums, half of the registers, at once.
template <int kRows>
inline void MatrixRows(const FewRowProduct& p, const SplitRows& a, int64_t step, int64_t row) {
  int64_t col = 0;
  if constexpr (kRows == 1) {
    for (; col + 128 <= p.cols; col += 128) {
      MatrixBlock<kRows, 8>(p, a, step, {row, col});
    }
  }
  if constexpr (kRows <= 2) {
    for (; col + 64 <= p.cols; col += 64) {
      MatrixBlock<kRows, 4>(p, a, step, {row, col});
    }
  }
  for (; col + 32 <= p.cols; col += 32) {
    MatrixBlock<kRows, 2>(p, a, step, {row, col});
  }
  for (; col < p.cols; col += 16) {
    MatrixBlock<kRows, 1>(p, a, step, {row, col});
  }
}

/// Writes the two bf16 numbers of each pair as f32.
inline void SplitPairs(const char* pairs, int64_t count, float (*split)[2]) {
  for (int64_t i = 0; i < count; ++i) {
    uint32_t pair;
    __builtin_memcpy(&pair, pairs + i * 4, 4);
    split[i][0] = __builtin_bit_cast(float, pair << 16);
    split[i][1] = __builtin_bit_cast(float, pair & ~0xffffu);
  }
}

inline void MultiplyAsMatrixUnit(const FewRowProduct& p) {
  const FlushToZero flush;
  SplitRows a;
  for (int64_t step = 0; step < p.steps; step += p.tile_steps) {
    for (int64_t row = 0; row < p.rows; ++row) {
      SplitPairs(static_cast<const char*>(p.a) + row * p.a_stride + step * 4, p.tile_steps, a[row]);
    }
    for (int64_t row = 0; row < p.rows;) {
      const int64_t left = p.rows - row;
      if (left >= 4) {
        MatrixRows<4>(p, a, step, row);
        row += 4;
      } else if (left >= 2) {
        MatrixRows<2>(p, a, step, row);
        row += 2;
      } else {
        MatrixRows<1>(p, a, step, row);
        row += 1;
      }
    }
  }
}

#endif  // __AVX512BF16__

#endif  // __AVX512F__

#ifndef __ARM_NEON

inline void MultiplyFewRows(const FewRowProduct& p) {
  switch (p.operands) {
    case FewRowProduct::kF32:
#ifdef __AVX512F__
      return MultiplyInRegisters<F32Chain, pairs::F32Chain>(p);
#else
      return pairs::MultiplyAllRows<pairs::F32Chain>(p);
#endif
    case FewRowProduct::kF32Bf16:
      return pairs::MultiplyAllRows<pairs::WidenedBf16Chain>(p);
    case FewRowProduct::kBf16:
#ifdef __AVX512BF16__
      return MultiplyInRegisters<Bf16Chain, pairs::Bf16Chain>(p);
#else
      return;  // ComputeDtype never chooses bf16 then
#endif
    case FewRowProduct::kBf16Matrix:
#ifdef __AVX512BF16__
      return MultiplyAsMatrixUnit(p);
#else
      return;  // a processor with a matrix unit has AVX512_BF16
#endif
    case FewRowProduct::kInt8:
#ifdef __AVX512F__
      return MultiplyInRegisters<Int8Chain, pairs::Int8Chain>(p);
#else
      return pairs::MultiplyAllRows<pairs::Int8Chain>(p);
#endif
  }
}

constexpr auto kMultiplyFewRows = &MultiplyFewRows;

#else

constexpr void (*kMultiplyFewRows)(const FewRowProduct&) = nullptr;

#endif

}  // namespace
}  // namespace attention
