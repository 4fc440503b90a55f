// Few-row products on registers of 256 bits: for AVX2, and on AVX-512 for f32 times bf16.
#pragma once

#ifdef __AVX2__

#include <immintrin.h>

#include "core/kernels/tile/tile_kernels.h"

namespace attention {
namespace {
namespace avx2 {

/// How a step is multiplied. A step has 32 bits of each column of b, which are kParts operands,
/// multiplied in the order of k.
struct F32Chain {
  using Sum = __m256;
  static constexpr int kParts = 1;
  static constexpr bool kSplitsBytes = false;
  static constexpr int64_t kBytesOfA = 4;  // of one step
  static Sum Zero() { return _mm256_setzero_ps(); }
  template <int kPart>
  static __m256 Part(__m256i b) {
    return _mm256_castsi256_ps(b);
  }
  template <int kPart>
  static __m256 Element(const char* a) {
    return _mm256_broadcast_ss(reinterpret_cast<const float*>(a) + kPart);
  }
  static Sum Step(Sum sum, __m256 a, __m256 b) { return _mm256_fmadd_ps(a, b, sum); }
  static Sum Load(const char* c) { return _mm256_loadu_ps(reinterpret_cast<const float*>(c)); }
  static Sum Add(Sum a, Sum b) { return _mm256_add_ps(a, b); }
  static void Store(Sum sum, char* c) { _mm256_storeu_ps(reinterpret_cast<float*>(c), sum); }
};

/// a is f32 and b bf16, which is the upper half of an f32.
struct Bf16Chain : F32Chain {
  static constexpr int kParts = 2;
  static constexpr int64_t kBytesOfA = 8;
  template <int kPart>
  static __m256 Part(__m256i b) {
    return _mm256_castsi256_ps(
        kPart == 0 ? _mm256_slli_epi32(b, 16)
                   : _mm256_and_si256(b, _mm256_set1_epi32(static_cast<int>(0xffff0000))));
  }
};

struct IntegerChain {
  using Sum = __m256i;
  static Sum Zero() { return _mm256_setzero_si256(); }
  static __m256i Broadcast(const char* a) {
    int32_t bits;
    __builtin_memcpy(&bits, a, sizeof(bits));
    return _mm256_set1_epi32(bits);
  }
  static Sum Load(const char* c) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(c)); }
  static Sum Add(Sum a, Sum b) { return _mm256_add_epi32(a, b); }
  static void Store(Sum sum, char* c) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(c), sum); }
};

#ifdef __AVXVNNI__

struct Int8Chain : IntegerChain {
  static constexpr int kParts = 1;
  static constexpr bool kSplitsBytes = false;
  static constexpr int64_t kBytesOfA = 4;
  template <int kPart>
  static __m256i Part(__m256i b) {
    return b;
  }
  template <int kPart>
  static __m256i Element(const char* a) {
    return Broadcast(a);
  }
  static Sum Step(Sum sum, __m256i a, __m256i b) { return _mm256_dpbusd_avx_epi32(sum, a, b); }
};

#else

/// Multiplies even and odd bytes separately, as 16-bit numbers: the sum of two products is exact.
/// SplitBytes has split a.
struct Int8Chain : IntegerChain {
  static constexpr int kParts = 2;
  static constexpr bool kSplitsBytes = true;
  static constexpr int64_t kBytesOfA = 8;
  template <int kPart>
  static __m256i Part(__m256i b) {
    return _mm256_srai_epi16(kPart == 0 ? _mm256_slli_epi16(b, 8) : b, 8);
  }
  template <int kPart>
  static __m256i Element(const char* a) {
    return Broadcast(a + 4 * kPart);
  }
  static Sum Step(Sum sum, __m256i a, __m256i b) {
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
    // Otherwise the compiler would add the products first, and run out of registers.
    asm("" : "+x"(sum));
    return sum;
  }
};

#endif

/// The number of bytes of b that stay in the L1 cache while they are multiplied with all rows.
constexpr int64_t kCachedBytes = 8192;
constexpr int64_t kLanes = 8;
constexpr int64_t kMostSteps = 256;

/// Consecutive steps. `sums` [rows, cols], of 32 bits, holds the sums of all earlier steps.
struct Part {
  int64_t first_step;
  int64_t steps;
  char* sums;
};

template <typename Chain, int kPart, int kRows, int kVecs>
inline void StepPart(const char* a, int64_t a_stride, const __m256i (&b)[kVecs],
                     typename Chain::Sum (&sums)[kRows][kVecs]) {
  decltype(Chain::template Part<kPart>(b[0])) part_of_b[kVecs];
#pragma GCC unroll 8
  for (int v = 0; v < kVecs; ++v) {
    part_of_b[v] = Chain::template Part<kPart>(b[v]);
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const auto element_of_a = Chain::template Element<kPart>(a + r * a_stride);
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      sums[r][v] = Chain::Step(sums[r][v], element_of_a, part_of_b[v]);
    }
  }
}

/// Computes kRows rows of c from `row` on and kVecs * kLanes columns from `col` on, over the steps
/// of `part`.
template <typename Chain, int kRows, int kVecs>
inline void MultiplyBlock(const FewRowProduct& p, const Part& part, int64_t row, int64_t col) {
  const char* a =
      static_cast<const char*>(p.a) + row * p.a_stride + part.first_step * Chain::kBytesOfA;
  const char* b = static_cast<const char*>(p.b) + part.first_step * p.b_stride + col * 4;
  char* kept = part.sums + (row * p.cols + col) * 4;
  // The columns are computed in strips, which read memory out of order, so the processor does not
  // prefetch it. The next steps are prefetched here, in order.
  const char* ahead = static_cast<const char*>(p.b) + (part.first_step + part.steps) * p.b_stride +
                      col * 4 * part.steps;
  typename Chain::Sum sums[kRows][kVecs];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      sums[r][v] =
          part.first_step == 0 ? Chain::Zero() : Chain::Load(kept + r * p.cols * 4 + 32 * v);
    }
  }
  for (int64_t step = 0; step < part.steps; ++step) {
    __m256i row_of_b[kVecs];
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      row_of_b[v] = IntegerChain::Load(b + step * p.b_stride + 32 * v);
    }
    for (int v = 0; v < kVecs; v += 2) {
      _mm_prefetch(ahead + (step * kVecs + v) * 32, _MM_HINT_T0);
    }
    const char* elements = a + step * Chain::kBytesOfA;
    StepPart<Chain, 0>(elements, p.a_stride, row_of_b, sums);
    if constexpr (Chain::kParts == 2) {
      StepPart<Chain, 1>(elements, p.a_stride, row_of_b, sums);
    }
  }
  const bool is_last = part.first_step + part.steps == p.steps;
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    char* c = is_last ? static_cast<char*>(p.c) + (row + r) * p.c_stride + col * 4
                      : kept + r * p.cols * 4;
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      const auto sum = sums[r][v];
      Chain::Store(is_last && p.accumulate ? Chain::Add(Chain::Load(c + 32 * v), sum) : sum,
                   c + 32 * v);
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

template <typename Chain>
inline void MultiplyAllRows(FewRowProduct p) {
  alignas(64) char sums[kFewRows * 512 * 4];
  uint32_t split[Chain::kSplitsBytes ? kFewRows * kMostSteps * 2 : 1];
  if constexpr (Chain::kSplitsBytes) {
    SplitBytes(p, split);
    p.a = split;
    p.a_stride = p.steps * Chain::kBytesOfA;
  }
  const int64_t most_steps = kCachedBytes / p.b_stride;
  for (int64_t step = 0; step < p.steps; step += most_steps) {
    const Part part{step, p.steps - step < most_steps ? p.steps - step : most_steps, sums};
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

}  // namespace avx2
}  // namespace
}  // namespace attention

#endif
