// The multi-head attention layer: projections, attention, output projection.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "core/attention/attention.h"
#include "core/runtime/workspace.h"
#include "core/tensor/tensor.h"

namespace attention {

/// Extents of a layer. num_heads is a multiple of num_kv_heads; head widths need not be d_model /
/// num_heads.
struct MultiHeadAttentionShape {
  int64_t d_model = 0;
  int64_t d_memory =
      0;  // width of the rows that keys and values come from; equals d_model for self-attention
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;        // d_k
  int64_t value_head_dim = 0;  // d_v
};

/// Borrowed weights, f32, row-major `[out_features, in_features]` (y = x W^T + b); a bias may be
/// null.
struct MultiHeadAttentionWeights {
  const float* query = nullptr;   // [num_heads * head_dim, d_model]
  const float* key = nullptr;     // [num_kv_heads * head_dim, d_memory]
  const float* value = nullptr;   // [num_kv_heads * value_head_dim, d_memory]
  const float* output = nullptr;  // [d_model, num_heads * value_head_dim]
  const float* query_bias = nullptr;
  const float* key_bias = nullptr;
  const float* value_bias = nullptr;
  const float* output_bias = nullptr;
};

/// One sequence of a layer call. Rows are counted in the packed inputs of the call.
struct LayerSequence {
  int64_t first_row = 0;  // in hidden_states
  int64_t query_len = 0;
  int64_t first_memory_row = 0;  // in memory; ignored for self-attention
  int64_t memory_len = 0;
  /// [query_len, d_model], any dtype.
  MutableMatrixView output;
  /// As AttentionSequence's.
  float* weights = nullptr;
  TopWeights top_weights = {};
  float* log_sum_exp = nullptr;
  AttentionOptions options = {};
};

class MultiHeadAttention {
 public:
  /// Packs the weights once, as `dtype` (f32 or bf16); the borrowed ones may go afterwards.
  /// INVALID_ARGUMENT for extents that do not fit together.
  static absl::StatusOr<std::unique_ptr<MultiHeadAttention>> Create(
      const MultiHeadAttentionShape& shape, const MultiHeadAttentionWeights& weights, Dtype dtype);
  ~MultiHeadAttention();

  const MultiHeadAttentionShape& shape() const;
  /// Of the weights, of hidden_states and memory, and of the activations between the products.
  Dtype dtype() const;

  /// The layer over a ragged batch of packed sequences, in row order without gaps.
  /// `hidden_states` [total_tokens, d_model] and `memory` [total_memory, d_memory] have dtype().
  /// Without `memory` this is self-attention.
  ///
  /// With `on_rows`, rows are finished in blocks of about `block_rows`; the projection of a causal
  /// sequence's later rows then waits for its earlier blocks. Bits as ScaledDotProductAttention
  /// promises. Thread-safe.
  absl::Status Run(MatrixView hidden_states, std::optional<MatrixView> memory,
                   std::span<const LayerSequence> sequences, Workspace& workspace,
                   const RowsCallback& on_rows = nullptr, int64_t block_rows = 256) const;

  struct State;

 private:
  explicit MultiHeadAttention(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace attention
