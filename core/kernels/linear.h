// Linear maps with weights packed once: y = x W^T + b.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/kernels/onednn/gemm.h"
#include "core/runtime/workspace.h"
#include "core/tensor/tensor.h"

namespace attention {

/// How the weights of a model are kept. Activations between the products are f32, or bf16 beside
/// bf16 weights.
enum class WeightsDtype {
  kF32,
  kBf16,
  kInt8,  // each output channel with a scale of its own; rows are rounded to 8 bits as they come
};

/// Columns of output that are computed together; parts of a fused map start at multiples of it.
inline constexpr int64_t kColumnBlock = 64;

/// Rows of a result: row `first_row` + i of the product is row i of `view`.
struct RowSegment {
  int64_t first_row = 0;
  MutableMatrixView view;
};

class PackedLinear {
 public:
  /// Borrowed f32 weights [out_features, in_features] and bias [out_features] (or null).
  struct Part {
    const float* weights = nullptr;
    const float* bias = nullptr;
    int64_t out_features = 0;
  };

  /// Packs the parts one after the other, each at a column that is a multiple of kColumnBlock
  /// (ColumnOf). `compute`: operand type of the product, a result of ComputeDtype; weights and
  /// biases are rounded to `dtype` first. REQUIRES: in_features is even when `compute` is bf16.
  PackedLinear(int64_t in_features, std::span<const Part> parts, Dtype dtype, Dtype compute);

  int64_t in_features() const { return in_features_; }
  /// Columns of the whole product, padding included: the row stride of a buffer that takes all
  /// parts.
  int64_t num_columns() const { return num_blocks_ * kColumnBlock; }
  int64_t ColumnOf(int64_t part) const { return columns_[part]; }
  size_t size_bytes() const { return packed_.size_bytes(); }

  struct Call {
    /// [rows, in_features] of the compute type.
    MatrixView input;
    /// Parts [first_part, end_part) are computed; column 0 of the outputs is the first part's
    /// first.
    int64_t first_part = 0;
    int64_t end_part = 0;
    /// In row order, covering all rows of the input. Columns past a view's `cols` are not written.
    std::span<const RowSegment> outputs;
  };

  /// A row's bits do not depend on the other rows nor on the number of threads: K is cut at fixed
  /// places.
  void Run(const Call& call, ThreadPool& pool) const;

 private:
  struct Kernels;

  void PackBlock(const Part& part, int64_t block_of_part, int64_t block, Dtype dtype);
  Kernels FindKernels(int64_t rows, int64_t row_stride) const;
  void RunTile(const Call& call, const Kernels& kernels, int64_t first_row, int64_t block) const;

  int64_t in_features_;
  int64_t num_blocks_ = 0;
  Dtype compute_;
  std::vector<int64_t> columns_;  // [parts + 1]
  AlignedBuffer packed_;          // [num_blocks][in_features][kColumnBlock], bf16 as pairs of rows
  AlignedBuffer bias_;            // f32 [num_columns]
};

}  // namespace attention
