// The chains of few-row products on registers of 256 bits (AVX2, and some of AVX-512) and of 128
// bits (SSE4.1).
#pragma once

#ifndef __ARM_NEON

#include <immintrin.h>

#include <cstdint>

namespace attention {
namespace {
namespace narrow {

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

/// Whether each element of a is written to all lanes of a register once for all columns. With
/// registers of four lanes, doing it for each rectangle would take a fifth of the time.
constexpr bool kBroadcastsFirst = kLanes == 4;
constexpr int64_t kElementBytes = kBroadcastsFirst ? kRegisterBytes : 4;

/// Returns a register with 32 bits of a in all lanes. With kBroadcastsFirst, `a` points to it.
template <typename T>
inline T Broadcast(const char* a) {
  if constexpr (kBroadcastsFirst) {
    return LoadAs<T>(a);
  }
  int32_t bits;
  __builtin_memcpy(&bits, a, sizeof(bits));
  return reinterpret_cast<T>(Integers{} + bits);
}

/// The number of bytes of b that stay in the L1 cache while they are multiplied with all rows.
constexpr int64_t kCachedBytes = 8192;

/// A chain says how the steps of a product are multiplied and added. A step has 32 bits of each
/// column of b, which hold kParts operands: Part<i> returns operand i, and Step adds its product to
/// the sum, in the order of k. Begin returns the sum with which a range of steps begins, and End
/// the sum of all steps up to its end; `before` is the sum of the steps before the range.
/// RangeBytes returns the size of the ranges with which several rows read memory fastest.
/// kHasPanels: b may be a panel of weights (PanelColumns).
///
/// This chain is of f32.
struct F32Chain {
  using Sum = Floats;
  static constexpr int kParts = 1;
  static constexpr bool kSplitsBytes = false;
  static constexpr bool kHasPanels = true;
  static constexpr int64_t RangeBytes(bool prefetches_far) { return prefetches_far ? 4096 : 2048; }
  template <int kPart>
  static Floats Part(Integers b) {
    return reinterpret_cast<Floats>(b);
  }
  static Sum Step(Sum sum, Floats a, Floats b) { return MultiplyAdd(a, b, sum); }
  static Sum Begin(Sum before) { return before; }
  static Sum End(Sum sum, Sum /*before*/) { return sum; }
};

/// The chain for an f32 a and a bf16 b, whose elements are the upper halves of f32.
struct WidenedBf16Chain : F32Chain {
  static constexpr int kParts = 2;
  static constexpr bool kHasPanels = false;
  static constexpr int64_t RangeBytes(bool /*prefetches_far*/) { return kCachedBytes; }
  template <int kPart>
  static Floats Part(Integers b) {
    return reinterpret_cast<Floats>(kPart == 0 ? b << 16 : b & static_cast<int>(0xffff0000));
  }
};

#ifdef __AVX512BF16__

/// The chain for bf16 a and b.
struct Bf16Chain : F32Chain {
  static constexpr bool kHasPanels = false;
  static Sum Step(Sum sum, Floats a, Floats b) {
    return _mm256_dpbf16_ps(sum, reinterpret_cast<__m256bh>(a), reinterpret_cast<__m256bh>(b));
  }
};

#endif

#if defined(__AVXVNNI__) || defined(__AVX512VNNI__)

inline Integers AddByteProducts(Integers sum, Integers a, Integers b) {
  const auto sums = reinterpret_cast<__m256i>(sum);
  const auto bytes_of_a = reinterpret_cast<__m256i>(a);
  const auto bytes_of_b = reinterpret_cast<__m256i>(b);
#ifdef __AVX512VNNI__
  return reinterpret_cast<Integers>(_mm256_dpbusd_epi32(sums, bytes_of_a, bytes_of_b));
#else
  return reinterpret_cast<Integers>(_mm256_dpbusd_avx_epi32(sums, bytes_of_a, bytes_of_b));
#endif
}

/// The chain for u8 a and s8 b. VNNI multiplies and adds the four bytes of a step.
struct Int8Chain {
  using Sum = Integers;
  static constexpr int kParts = 1;
  static constexpr bool kSplitsBytes = false;
  static constexpr bool kHasPanels = false;
  static constexpr int64_t RangeBytes(bool /*prefetches_far*/) { return kCachedBytes; }
  template <int kPart>
  static Integers Part(Integers b) {
    return b;
  }
  static Sum Step(Sum sum, Integers a, Integers b) { return AddByteProducts(sum, a, b); }
  static Sum Begin(Sum before) { return before; }
  static Sum End(Sum sum, Sum /*before*/) { return sum; }
};

#endif

/// The chain for u8 a and s8 b without VNNI. It multiplies even and odd bytes separately, as 16-bit
/// numbers of 256 times their size, which need no shift to the right: the sums of up to
/// kMaxRangeSteps steps are exact. SplitBytes splits a. AVX-512 uses this for one row although it
/// has VNNI, which took 1.26 times as long (Zen 4).
struct SplitInt8Chain {
  using Sum = Integers;
  static constexpr int kParts = 2;
  static constexpr bool kSplitsBytes = true;
  static constexpr bool kHasPanels = false;
  static constexpr int64_t RangeBytes(bool /*prefetches_far*/) { return kCachedBytes; }
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

#if !defined(__AVXVNNI__) && !defined(__AVX512VNNI__)
using Int8Chain = SplitInt8Chain;
#endif

}  // namespace narrow
}  // namespace
}  // namespace attention

#endif
