// The multi-head attention layer: projections, attention, output projection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "core/layers/layer_call.h"
#include "core/runtime/workspace.h"

namespace attention {

struct LayerState;

/// An attention layer with packed weights. Immutable; thread-safe.
class MultiHeadAttention {
 public:
  /// Packs the weights. The borrowed weights are not needed afterwards. INVALID_ARGUMENT for
  /// extents that do not fit together.
  static absl::StatusOr<std::unique_ptr<MultiHeadAttention>> Create(
      const MultiHeadAttentionShape& shape, const MultiHeadAttentionWeights& weights,
      WeightsDtype dtype);
  ~MultiHeadAttention();

  const MultiHeadAttentionShape& shape() const;
  /// Returns the dtype of the weights as callers see it: bf16 for bf16 weights, otherwise f32. Rows
  /// of dtype compute() need no conversion.
  Dtype dtype() const;
  /// Returns the dtype of the operands of the products.
  Dtype compute() const;
  /// Returns the number of keys that the layer adds behind the keys of each sequence.
  int64_t extra_keys() const;
  size_t size_bytes() const;

  /// Returns the shape of the cache that a sequence may have. INVALID_ARGUMENT for a layer whose
  /// keys are not computed from its own rows alone: one with extra keys, or with a memory of other
  /// widths.
  absl::StatusOr<KvCacheShape> CacheShape(KeyValueStorage storage) const;

  /// Returns the number of floating point operations of a call, without norms and softmax. `rows`
  /// rows of hidden states attend to `attended_pairs` keys in total. The keys are computed from
  /// `memory_rows` rows; 0: from the rows themselves (self-attention).
  double Flops(int64_t rows, double attended_pairs, int64_t memory_rows = 0) const;

  /// Runs the layer. It makes the promise of ScaledDotProductAttention about bits. With f32 caches
  /// and f32 or 8-bit weights, the bits are those of the whole sequence in one call, however it was
  /// divided. Errors: CANCELLED when on_rows or yield returned false; INVALID_ARGUMENT names the
  /// wrong field of the call, of its options, rows or caches; RESOURCE_EXHAUSTED when a cache finds
  /// no memory. After an error caches may be longer than before, or hold more memory: the caller
  /// truncates them. Throws std::bad_alloc and KernelError (core/README.md), after which the caches
  /// are as after an error. Calls with different workspaces may run at the same time.
  absl::Status Run(const LayerCall& call, Workspace& workspace) const;

 private:
  explicit MultiHeadAttention(std::unique_ptr<LayerState> state);
  std::unique_ptr<LayerState> state_;
};

}  // namespace attention
