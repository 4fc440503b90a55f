// Linear maps y = x W^T + b with packed weights. Activation, gate and residual are applied in the
// same pass over the result.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/kernels/gemm/gemm.h"
#include "core/kernels/linear/linear_weights.h"
#include "core/kernels/tile/activation.h"
#include "core/runtime/huge_pages.h"
#include "core/runtime/numa.h"
#include "core/runtime/workspace.h"
#include "core/tensor/tensor.h"

namespace attention {

/// The memory for consecutive rows of a result: row first_row + i of the result is row i of `view`.
struct OutputRows {
  int64_t first_row = 0;
  MutableMatrixView view;
};

/// Returns the dtype of the rows between the products of a layer. bf16 products work on pairs, so
/// they need even widths: `has_even_widths` says whether all widths of the layer are even.
Dtype RowsDtype(WeightsDtype dtype, bool has_even_widths);

/// One or several linear maps of the same input (*parts*), packed for one product. Immutable;
/// thread-safe, where each call has a workspace of its own.
class PackedLinear {
 public:
  struct Part {
    LinearWeights weights;
    int64_t out_features = 0;
  };
  struct Format {
    /// The dtype to which weights and biases are rounded.
    WeightsDtype weights = WeightsDtype::kF32;
    /// The dtype of the input rows, and with kF32 and kBf16 of the operands of the product; a
    /// result of ComputeDtype.
    Dtype compute = Dtype::kF32;
    /// Whether the map is gated: it has two parts of equal width, and the result is
    /// activation(first) * second.
    bool is_gated = false;
  };

  /// Packs the parts one after the other, each at a column that is a multiple of kColumnBlock
  /// (ColumnOf). The blocks of the two parts of a gated map alternate. REQUIRES: in_features is
  /// even when `compute` is bf16.
  PackedLinear(int64_t in_features, std::span<const Part> parts, const Format& format);

  int64_t in_features() const { return in_features_; }
  Dtype compute() const { return format_.compute; }
  /// Returns the number of columns of the whole result, padding included. It is the row stride of a
  /// buffer for all parts.
  int64_t num_columns() const { return columns_.back(); }
  int64_t ColumnOf(int64_t part) const { return columns_[part]; }
  /// Returns the size of the weights, all copies counted.
  size_t size_bytes() const {
    return copies_.size() * copies_.front().size_bytes() + bias_.size_bytes();
  }

  struct Call {
    /// The input, [rows, in_features] of the compute type.
    MatrixView input;
    /// Parts [first_part, end_part) are computed; column 0 of the outputs is the first part's
    /// first. A gated map has one part.
    int64_t first_part = 0;
    int64_t end_part = 1;
    /// The memory for the result, in row order, for all rows of the input. Columns past a view's
    /// `cols` are not written.
    std::span<const OutputRows> outputs;
    Activation activation = Activation::kNone;
    /// The rows that are added last, f32 [rows, columns of the result], or none. They may be the
    /// memory of the result.
    std::optional<MatrixView> residual = {};
  };

  /// Computes the result. The bits of a row depend neither on the other rows nor on the number of
  /// threads, since each sum is divided into chains at fixed input features.
  void Run(const Call& call, Workspace& workspace) const;

  /// The weights of one output channel as they were packed, f32 [in_features]. REQUIRES: not gated.
  void CopyChannel(int64_t channel, float* target) const;

 private:
  struct Division;
  struct Kernels;
  struct Operand;
  struct Tile;

  /// In f32 panels, in bf16 pairs of rows, or in 8-bit fours of rows.
  enum class Packing { kF32, kBf16, kInt8 };
  static Packing PackingOf(const Format& format, int64_t in_features);

  bool is_int8() const { return packing_ == Packing::kInt8; }
  /// Returns whether bf16 weights are multiplied with f32 rows.
  bool widens() const { return packing_ == Packing::kBf16 && format_.compute == Dtype::kF32; }
  LinearWeights WeightsOf(const Part& part) const;
  /// Packs the part, and copies its biases, from `block` on.
  void PackPart(const Part& part, int64_t block);
  int64_t BytesOf(int64_t weights) const;
  int64_t num_blocks() const { return num_columns() / kColumnBlock * (format_.is_gated ? 2 : 1); }
  size_t BlockBytes() const;
  /// Returns the first copy, while it is packed.
  std::byte* Block(int64_t block) { return copies_.front().data() + block * BlockBytes(); }
  /// Returns the copy that the calling thread reads.
  const std::byte* Block(int64_t block) const {
    const size_t copy = std::min<size_t>(CurrentNumaNode(), copies_.size() - 1);
    return copies_[copy].data() + block * BlockBytes();
  }
  const float* Bias(int64_t block) const;
  Kernels FindKernels(int64_t rows, int64_t row_stride, int64_t product_stride) const;
  int64_t StrideInPlace(const Call& call) const;
  void Multiply(const Tile& tile, const Kernels& kernels, int64_t block, float* product) const;
  void Widen(int64_t block, float* target) const;
  Operand Prepare(const MatrixView& input, Workspace& workspace) const;
  Division Divide(const Call& call) const;
  Tile TileAt(int64_t i, const Division& division, const Operand& input) const;
  void RunTile(const Call& call, const Tile& tile) const;
  void Store(const Call& call, const Tile& tile, int64_t column, const float* product) const;

  int64_t in_features_;
  Format format_;
  Packing packing_;
  std::vector<int64_t> columns_;  // [parts + 1]
  /// [blocks], each [in_features][kColumnBlock]: f32 in panels (PanelColumns), bf16 in pairs of
  /// rows, or int8 in fours, then f32 scales and offsets [kColumnBlock]. One copy, or one for each
  /// NUMA node.
  std::vector<MappedBuffer> copies_;
  AlignedBuffer bias_;  // f32 [blocks][kColumnBlock]
};

}  // namespace attention
