// Small matrix products by oneDNN, generated once for each shape.
#pragma once

#include <cstdint>
#include <memory>

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

/// A generated kernel, m <= 64: immutable, thread-safe, alive until the process ends.
///
/// A row of C has the same bits whatever m is, and whether or not A and B are continued with zeros
/// along k: every element is one chain of multiply-adds in the order of k, added to C at its end.
class Gemm {
 public:
  virtual ~Gemm() = default;
  virtual void Run(const void* a, const void* b, void* c) const = 0;
};

/// The kernel of `shape`, generated at the first call (20 to 60 us). Thread-safe.
const Gemm& FindGemm(GemmShape shape);

/// Kernels generated so far.
int64_t NumGemmKernels();

}  // namespace attention
