// One small matrix product: its shape, the kernel generated for it, its errors.
#pragma once

#include <cstdint>
#include <new>
#include <stdexcept>
#include <utility>

#include "core/tensor/dtype.h"

namespace attention {

/// C[m, n] = A[m, k] B[k, n], or C += with `accumulate`. A is row-major, lda elements apart; C is
/// f32. B is packed: f32 rows `ldb` elements apart; bf16 pairs of rows interleaved, [k /
/// 2][ldb][2], so k is even.
///
/// With `int8` A is u8, B s8 in fours of rows, [k / 4][ldb][4], C int32 and exact.
/// REQUIRES then: MultipliesInt8().
struct GemmShape {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t lda = 0;
  int64_t ldb = 0;
  int64_t ldc = 0;
  bool accumulate = false;
  Dtype dtype = Dtype::kF32;  // of A and B: f32, or bf16 where ComputeDtype says so
  bool int8 = false;

  bool operator==(const GemmShape&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const GemmShape& s) {
    return H::combine(std::move(h), s.m, s.n, s.k, s.lda, s.ldb, s.ldc, s.accumulate, s.dtype,
                      s.int8);
  }
};

/// The index of element [row, col] of a packed B with `cols` columns, of which `together` rows are
/// interleaved: 1, 2 or 4.
constexpr int64_t PackedIndex(int64_t row, int64_t col, int64_t cols, int64_t together) {
  return row / together * cols * together + col * together + row % together;
}

/// oneDNN found no memory, executable or other, for a kernel.
class NoKernelMemory final : public std::bad_alloc {
 public:
  const char* what() const noexcept override { return "oneDNN found no memory for a kernel"; }
};

/// oneDNN could not make or run a kernel, for another reason.
class KernelError final : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A generated kernel, m <= 64: immutable, thread-safe.
///
/// A row of C has the same bits whatever m is, and whether or not A and B are continued with zeros
/// along k: every element is one chain of multiply-adds in the order of k, added to C at its end.
class Gemm {
 public:
  virtual ~Gemm() = default;
  /// Throws NoKernelMemory or KernelError; C is undefined then.
  virtual void Run(const void* a, const void* b, void* c) const = 0;
};

/// Kernels that are kept, though more may be in use: some 50 MB, at 20 to 26 KB each.
inline constexpr int64_t kMaxGemmKernels = 2048;

/// Kernels that were generated so far, are held, and were freed.
struct GemmCounts {
  int64_t generated = 0;
  int64_t held = 0;
  int64_t evicted = 0;
};

}  // namespace attention
