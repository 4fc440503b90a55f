// One small matrix product: its shape, the kernel that is generated for it, and its errors.
#pragma once

#include <cstdint>
#include <new>
#include <stdexcept>
#include <utility>

#include "core/tensor/dtype.h"

namespace attention {

/// The shape of C = A B, or with `accumulate` of C += A B. All matrices are row-major; lda, ldb and
/// ldc are the distances of their rows in elements.
///
/// A is [m, k], of `dtype`. B is [k, n], of the same dtype, and packed: f32 as rows, bf16 as
/// interleaved pairs of rows [k / 2][ldb][2], so that k is even. C is f32 [m, n]. packed_index.h
/// says where an element of B lies.
///
/// With `bf16_b`, A is f32 and B is bf16, packed as with bf16. It is fast for few rows only.
/// REQUIRES then: not ARM64.
///
/// With `int8`, A is u8, B is s8 in interleaved groups of four rows [k / 4][ldb][4], and C is int32
/// and exact. REQUIRES then: MultipliesInt8().
///
/// `reads_memory` says that no cache holds B. It changes no bit.
struct GemmShape {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t lda = 0;
  int64_t ldb = 0;
  int64_t ldc = 0;
  bool accumulate = false;
  Dtype dtype = Dtype::kF32;  // a result of ComputeDtype
  bool int8 = false;
  bool bf16_b = false;
  bool reads_memory = false;

  bool operator==(const GemmShape&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const GemmShape& s) {
    return H::combine(std::move(h), s.m, s.n, s.k, s.lda, s.ldb, s.ldc, s.accumulate, s.dtype,
                      s.int8, s.bf16_b, s.reads_memory);
  }
};

/// Thrown when oneDNN finds no memory for a kernel, executable memory included.
class NoKernelMemory final : public std::bad_alloc {
 public:
  const char* what() const noexcept override { return "oneDNN found no memory for a kernel"; }
};

/// Thrown when oneDNN cannot make or run a kernel for another reason.
class KernelError final : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A generated kernel for one shape with m <= 64. Immutable; thread-safe.
///
/// Every element of the product is one chain of multiply-adds in the order of k, which is added to
/// C at its end. A row of C therefore has the same bits for every m, and zeros behind A and B along
/// k change no bit.
class Gemm {
 public:
  virtual ~Gemm() = default;
  /// Computes the product. Throws NoKernelMemory or KernelError, after which C is undefined.
  virtual void Run(const void* a, const void* b, void* c) const = 0;
};

/// The number of kernels that are kept when no computation runs. At 20 to 26 KB each they take some
/// 50 MB.
inline constexpr int64_t kMaxGemmKernels = 2048;

/// The numbers of kernels that were generated since the start, that are in memory, and that were
/// freed since the start.
struct GemmCounts {
  int64_t generated = 0;
  int64_t held = 0;
  int64_t evicted = 0;
};

}  // namespace attention
