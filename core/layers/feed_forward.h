// The feed-forward layer of a transformer block.
#pragma once

#include <cstdint>
#include <optional>

#include "core/kernels/linear.h"

namespace attention {

/// down(activation(up(x))), or with a gate down(activation(gate(x)) * up(x)) (Shazeer 2020).
struct FeedForwardWeights {
  int64_t d_model = 0;
  int64_t d_hidden = 0;
  LinearWeights up;                   // [d_hidden, d_model]
  std::optional<LinearWeights> gate;  // the same
  LinearWeights down;                 // [d_model, d_hidden]
  Activation activation = Activation::kGelu;
};

/// Immutable; thread-safe.
class FeedForward {
 public:
  /// Packs the weights; the borrowed ones may go afterwards.
  FeedForward(const FeedForwardWeights& weights, WeightsDtype dtype);

  /// Of the rows that Run reads.
  Dtype compute() const { return up_.compute(); }
  size_t size_bytes() const { return up_.size_bytes() + down_.size_bytes(); }
  /// Floating point operations of a row.
  double row_flops() const { return row_flops_; }

  /// output [rows, d_model], any dtype, = residual + the layer of input [rows, d_model] of
  /// compute(). The residual is f32 and may be where the output is; none: 0. A row's bits depend on
  /// that row alone.
  void Run(const MatrixView& input, const std::optional<MatrixView>& residual,
           const MutableMatrixView& output, Workspace& workspace) const;

 private:
  Activation activation_;
  double row_flops_;
  PackedLinear up_;  // gated where there is a gate
  PackedLinear down_;
};

/// Type of the rows between the products of a layer all of whose widths are even, or not: products
/// of bf16 work on pairs.
Dtype RowsDtype(WeightsDtype dtype, bool has_even_widths);

}  // namespace attention
