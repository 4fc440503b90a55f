// The parts of an attention layer, and a call of it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/attention/attention_sequence.h"
#include "core/attention/kv_cache.h"
#include "core/kernels/attention/rotary.h"
#include "core/kernels/linear/linear_weights.h"
#include "core/layers/rows_per_slice.h"
#include "core/tensor/tensor.h"

namespace attention {

/// The extents of a layer. num_heads is a multiple of num_kv_heads; head widths need not be d_model
/// / num_heads.
struct MultiHeadAttentionShape {
  int64_t d_model = 0;
  /// The width of the rows from which keys are computed, and values too unless d_memory_value is
  /// set. It equals d_model for self-attention.
  int64_t d_memory = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;        // d_k
  int64_t value_head_dim = 0;  // d_v
  int64_t d_memory_value = 0;  // 0: d_memory

  /// Returns whether keys and values are computed from rows of different widths, and so from two
  /// inputs.
  bool has_memory_values() const { return d_memory_value != 0 && d_memory_value != d_memory; }
  /// Returns the width of the rows that the values are computed from.
  int64_t value_width() const { return d_memory_value == 0 ? d_memory : d_memory_value; }
  /// Returns whether keys or values have another width than the layer's own rows.
  bool needs_memory() const { return d_memory != d_model || has_memory_values(); }
};

/// The weights of a layer, borrowed.
struct MultiHeadAttentionWeights {
  LinearWeights query;   // [num_heads * head_dim, d_model]
  LinearWeights key;     // [num_kv_heads * head_dim, d_memory]
  LinearWeights value;   // [num_kv_heads * value_head_dim, d_memory or d_memory_value]
  LinearWeights output;  // [d_model, num_heads * value_head_dim]
  /// One more key and value behind the keys and values of each sequence, to which every row attends
  /// (bias_k and bias_v of torch.nn.MultiheadAttention): [num_kv_heads * head_dim] and
  /// [num_kv_heads * value_head_dim]. Both or none.
  std::vector<float> extra_key = {};
  std::vector<float> extra_value = {};
  /// Whether a key and value of zeros follow (add_zero_attn).
  bool has_zero_key = false;
};

/// One sequence of a layer call. Rows are counted in the packed inputs of the call.
struct LayerSequence {
  int64_t first_row = 0;  // in hidden_states
  int64_t query_len = 0;
  int64_t first_memory_row = 0;  // in memory; ignored for self-attention
  int64_t memory_len = 0;
  /// The output, [query_len, d_model]; any dtype.
  MutableMatrixView output;
  /// The results as in AttentionSequence, with extra_keys() more columns.
  float* weights = nullptr;
  TopWeights top_weights = {};
  float* log_sum_exp = nullptr;
  /// A cache of the layer's CacheShape, for self-attention only; or null. The keys and values of
  /// these rows are appended to it, the keys after key_norm and rotary of the options. The rows
  /// then attend over all of its keys, whose number is the kv_len of weights and options. Only one
  /// sequence of a call may name a cache.
  KvCache* cache = nullptr;
  /// The options. A mask and a bias have no columns for the extra keys.
  AttentionOptions options = {};
};

/// A call over a ragged batch of packed sequences, in row order without gaps. The views may have
/// any dtype.
struct LayerCall {
  MatrixView hidden_states;  // [total_tokens, d_model]
  /// [total_memory, d_memory]: the rows of keys and values. Without it this is self-attention.
  std::optional<MatrixView> memory = {};
  /// [total_memory, d_memory_value], where shape().has_memory_values().
  std::optional<MatrixView> memory_values = {};
  std::span<const LayerSequence> sequences;
  /// f32 [total_tokens, d_model], added to the output. It may be the memory of the output.
  std::optional<MatrixView> residual = {};
  /// A callback that announces final rows. With it, rows are computed in stages of about
  /// `block_rows`, and the later rows of a causal sequence are projected only after its earlier
  /// stages.
  RowsCallback on_rows = nullptr;
  int64_t block_rows = 256;
  /// A function that is called on the calling thread before each slice; it returns whether to
  /// continue. A slice is about `slice_flops` operations for each thread of the pool, but at least
  /// 64 rows. The function may run another computation on the same pool with another workspace.
  /// Null: the call is not divided into slices.
  Yield yield = nullptr;
  /// Rotations that the layers of a run share; null: the call makes its own.
  RotaryTables* rotations = nullptr;
  double slice_flops = kSliceFlops;
};

}  // namespace attention
