// The multi-head attention layer: projections, attention, output projection.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "core/attention/attention.h"
#include "core/attention/kv_cache.h"
#include "core/kernels/linear.h"
#include "core/layers/slices.h"
#include "core/runtime/workspace.h"
#include "core/tensor/tensor.h"

namespace attention {

/// Extents of a layer. num_heads is a multiple of num_kv_heads; head widths need not be d_model /
/// num_heads.
struct MultiHeadAttentionShape {
  int64_t d_model = 0;
  /// Width of the rows that keys come from, and values unless d_memory_value says otherwise; equals
  /// d_model for self-attention.
  int64_t d_memory = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;        // d_k
  int64_t value_head_dim = 0;  // d_v
  int64_t d_memory_value = 0;  // 0: d_memory

  /// Keys and values come from rows of different widths, so from two inputs.
  bool has_memory_values() const { return d_memory_value != 0 && d_memory_value != d_memory; }
};

/// Borrowed weights.
struct MultiHeadAttentionWeights {
  LinearWeights query;   // [num_heads * head_dim, d_model]
  LinearWeights key;     // [num_kv_heads * head_dim, d_memory]
  LinearWeights value;   // [num_kv_heads * value_head_dim, d_memory or d_memory_value]
  LinearWeights output;  // [d_model, num_heads * value_head_dim]
  /// One more key and value behind those of each sequence, which every row sees (bias_k and bias_v
  /// of torch.nn.MultiheadAttention): [num_kv_heads * head_dim] and [num_kv_heads *
  /// value_head_dim]. Both or none.
  std::vector<float> extra_key = {};
  std::vector<float> extra_value = {};
  /// Then another one of zeros (add_zero_attn).
  bool has_zero_key = false;
};

/// One sequence of a layer call. Rows are counted in the packed inputs of the call.
struct LayerSequence {
  int64_t first_row = 0;  // in hidden_states
  int64_t query_len = 0;
  int64_t first_memory_row = 0;  // in memory; ignored for self-attention
  int64_t memory_len = 0;
  /// [query_len, d_model], any dtype.
  MutableMatrixView output;
  /// As AttentionSequence's, with extra_keys() columns more.
  float* weights = nullptr;
  TopWeights top_weights = {};
  float* log_sum_exp = nullptr;
  /// Self-attention only, of the layer's CacheShape; or null. The keys and values of these rows are
  /// appended to it, keys as key_norm and rotary of the options say, and the rows attend over all
  /// that it then holds: that is the kv_len of weights and options. A cache stands in one sequence
  /// of a call.
  KvCache* cache = nullptr;
  /// A mask and a bias have columns for the sequence's own keys.
  AttentionOptions options = {};
};

/// A ragged batch of packed sequences, in row order without gaps. Views of any dtype.
struct LayerCall {
  MatrixView hidden_states;  // [total_tokens, d_model]
  /// [total_memory, d_memory]; without it this is self-attention.
  std::optional<MatrixView> memory = {};
  /// [total_memory, d_memory_value], where shape().has_memory_values().
  std::optional<MatrixView> memory_values = {};
  std::span<const LayerSequence> sequences;
  /// f32 [total_tokens, d_model], added to the output; may be where that goes.
  std::optional<MatrixView> residual = {};
  /// With it, rows are finished in blocks of about `block_rows`; the projection of a causal
  /// sequence's later rows then waits for its earlier blocks.
  RowsCallback on_rows = nullptr;
  int64_t block_rows = 256;
  /// Asked whether to go on, on the calling thread, before each slice of about `slice_flops` for
  /// each thread of the pool, but not less than 64 rows. It may run another computation on the same
  /// pool with another workspace. Null: the call is not sliced.
  GoOn go_on = nullptr;
  double slice_flops = kSliceFlops;
};

class MultiHeadAttention {
 public:
  /// Packs the weights once; the borrowed ones may go afterwards. INVALID_ARGUMENT for extents that
  /// do not fit together.
  static absl::StatusOr<std::unique_ptr<MultiHeadAttention>> Create(
      const MultiHeadAttentionShape& shape, const MultiHeadAttentionWeights& weights,
      WeightsDtype dtype);
  ~MultiHeadAttention();

  const MultiHeadAttentionShape& shape() const;
  /// That hidden_states and memory need no conversion from.
  Dtype dtype() const;
  /// That the products read.
  Dtype compute() const;
  /// Keys behind each sequence's own.
  int64_t extra_keys() const;
  size_t size_bytes() const;

  /// Of the cache that a sequence may have. INVALID_ARGUMENT for a layer whose keys do not come
  /// from its own rows alone: extra keys, or a memory of other widths.
  absl::StatusOr<KvCacheShape> CacheShape(KeyValueStorage storage) const;

  /// Floating point operations of a call, those of norms and softmax apart: `rows` of hidden states
  /// that see `attended_pairs` keys in all, made of `memory_rows` rows; 0: of the rows themselves
  /// (self-attention).
  double Flops(int64_t rows, double attended_pairs, int64_t memory_rows = 0) const;

  /// Bits as ScaledDotProductAttention promises; with caches of f32 storage and an f32 layer, those
  /// of the whole sequence at once, however it was cut. Errors: CANCELLED when on_rows or go_on
  /// said so; INVALID_ARGUMENT names what of the call is wrong, its options, rows and
  /// caches among it; RESOURCE_EXHAUSTED when a cache finds no memory. After an error caches may be
  /// longer than before, or hold more memory: the caller truncates them. Thread-safe.
  absl::Status Run(const LayerCall& call, Workspace& workspace) const;

  struct State;

 private:
  explicit MultiHeadAttention(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace attention
