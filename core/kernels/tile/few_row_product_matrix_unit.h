// Few-row products of bf16 with the bits of a matrix unit (AMX), by vector instructions. One and
// two rows use them where larger products use the matrix unit, so that both agree to the last bit.
#pragma once

#ifdef __AVX512BF16__

#include "core/kernels/tile/few_row_product_avx512.h"
#include "core/kernels/tile/tile_kernels.h"
#include "core/kernels/tile/vec16.h"

namespace attention {
namespace {

/// Makes subnormal numbers count as zero on this thread until it is destroyed, as in a matrix unit.
/// Tasks of a pool do so in any case (core/runtime/flush_denormals.h), other callers do not.
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

/// Computes the rectangle of kRows rows and kVecs * 16 columns of c from `at` on, over tile_steps
/// steps from `first_step` on, with the bits of AMX (TDPBF16PS in Intel's Software Developer's
/// Manual): the products of the even and of the odd elements are two chains of multiply-adds that
/// begin at 0; their sum is added to c.
template <int kRows, int kVecs>
inline void MatrixUnitRectangle(const FewRowProduct& p, const SplitRows& a, int64_t first_step,
                                Corner at) {
  const auto* b = static_cast<const char*>(p.b) + first_step * p.b_stride + at.col * 4;
  // The next steps are prefetched in the order of memory, as in MultiplyRectangle.
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

/// Computes kRows rows and all columns. A rectangle has at most 16 sums, half of the registers.
template <int kRows>
inline void MatrixUnitRows(const FewRowProduct& p, const SplitRows& a, int64_t step, int64_t row) {
  int64_t col = 0;
  if constexpr (kRows == 1) {
    for (; col + 128 <= p.cols; col += 128) {
      MatrixUnitRectangle<kRows, 8>(p, a, step, {row, col});
    }
  }
  for (; col + 64 <= p.cols; col += 64) {
    MatrixUnitRectangle<kRows, 4>(p, a, step, {row, col});
  }
  for (; col < p.cols; col += 16) {
    MatrixUnitRectangle<kRows, 1>(p, a, step, {row, col});
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

/// Computes the product of FewRowProduct::kBf16Matrix.
inline void MultiplyAsMatrixUnit(const FewRowProduct& p) {
  const FlushToZero flush;
  SplitRows a;
  for (int64_t step = 0; step < p.steps; step += p.tile_steps) {
    for (int64_t row = 0; row < p.rows; ++row) {
      SplitPairs(static_cast<const char*>(p.a) + row * p.a_stride + step * 4, p.tile_steps, a[row]);
    }
    int64_t row = 0;
    for (; row + 2 <= p.rows; row += 2) {
      MatrixUnitRows<2>(p, a, step, row);
    }
    if (row < p.rows) {
      MatrixUnitRows<1>(p, a, step, row);
    }
  }
}

}  // namespace
}  // namespace attention

#endif
