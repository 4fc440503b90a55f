// The feed-forward layer of a transformer block.
#pragma once

#include <cstdint>
#include <optional>

#include "core/kernels/linear/linear.h"

namespace attention {

/// The weights of down(activation(up(x))), or with a gate of down(activation(gate(x)) * up(x))
/// (Shazeer 2020).
struct FeedForwardWeights {
  int64_t d_model = 0;
  int64_t d_hidden = 0;
  LinearWeights up;                   // [d_hidden, d_model]
  std::optional<LinearWeights> gate;  // the same
  LinearWeights down;                 // [d_model, d_hidden]
  Activation activation = Activation::kGelu;
};

/// A feed-forward layer. Immutable; thread-safe.
class FeedForward {
 public:
  /// Packs the weights. The borrowed weights are not needed afterwards.
  FeedForward(const FeedForwardWeights& weights, WeightsDtype dtype);

  /// Returns the dtype of the rows that Run reads.
  Dtype compute() const { return up_.compute(); }
  size_t size_bytes() const { return up_.size_bytes() + down_.size_bytes(); }
  /// Returns the number of floating point operations for one row.
  double row_flops() const { return row_flops_; }

  /// Computes output [rows, d_model] of any dtype = residual + layer(input), with input [rows,
  /// d_model] of dtype compute(). The residual is f32 and may be the memory of the output; without
  /// one it counts as 0. The bits of a row depend on that row alone.
  void Run(const MatrixView& input, const std::optional<MatrixView>& residual,
           const MutableMatrixView& output, Workspace& workspace) const;

 private:
  Activation activation_;
  double row_flops_;
  PackedLinear up_;  // gated where there is a gate
  PackedLinear down_;
};

}  // namespace attention
