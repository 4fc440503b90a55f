// Scaled dot-product attention over ragged batches: the public entry of the core for callers with
// their own query, key and value.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "core/kernels/variants.h"
#include "core/runtime/workspace.h"
#include "core/tensor/ragged.h"
#include "core/tensor/tensor.h"

namespace attention {

class KvCache;

/// Bound of query offsets and rotary position offsets, either way: far beyond any sequence, and no
/// sum of positions overflows.
inline constexpr int64_t kMaxPosition = int64_t{1} << 40;

/// What one sequence asks for. Spans, views and norm weights are borrowed.
///
/// Rows: query and key rows are normalised (`query_norm`, `key_norm`), then turned (`rotary`).
/// Logits: softcap(scale * query . key), then - slope * |p - j|, then + bias, then the visibility
/// rules hide keys. Row i stands at key position p = query_offset + i; key j at j.
struct AttentionOptions {
  /// Row i sees keys j <= p.
  bool causal = false;
  /// Factor of query . key; default 1 / sqrt(head_dim). Finite, any sign.
  std::optional<float> scale = {};
  /// Default kv_len - query_len: the last row stands at the last key (bottom-right alignment). May
  /// be negative.
  std::optional<int64_t> query_offset = {};

  /// w > 0: row i sees keys j > p - w, so w keys counting its own. 0: unbounded.
  int64_t window = 0;
  /// r > 0: row i sees keys j <= p + r. 0: unbounded.
  int64_t window_right = 0;
  /// Keys j < prefix are seen by every row, whatever `causal` and the windows say.
  int64_t prefix = 0;
  /// Positions whose row sees every key and whose key is seen by every row (Longformer), whatever
  /// `causal` and the windows say. Strictly ascending, in [0, kv_len).
  std::span<const int64_t> global_tokens = {};
  /// [num_heads or 1, query_len, kv_len]: keys with 0 are hidden, whatever else holds.
  Mask mask = {};

  /// c > 0: a logit x becomes c * tanh(x / c). 0: none.
  float softcap = 0;
  /// [num_heads] or empty: ALiBi (Press et al. 2022).
  std::span<const float> alibi_slopes = {};
  /// f32 [num_heads or 1, query_len, kv_len], added to the logits.
  Bias bias = {};
  /// [num_heads] or empty: one more logit for each row of a head, which joins the denominator of
  /// softmax and nothing else.
  std::span<const float> sinks = {};

  /// Over head_dim.
  std::optional<RmsNorm> query_norm = {};
  std::optional<RmsNorm> key_norm = {};
  std::optional<Rotary> rotary = {};

  Similarity similarity = Similarity::kDotProduct;
  /// Width of the regression kernels, > 0 for them; scale, softcap, alibi_slopes, bias and sinks
  /// are not theirs.
  double bandwidth = 0;
};

/// The k largest weights of each row, largest first (equal ones: the earlier key first). Where a
/// row sees fewer keys, the rest has weight 0 and key -1.
struct TopWeights {
  int64_t k = 0;
  float* weights = nullptr;  // [num_heads, query_len, k]
  int32_t* keys = nullptr;   // [num_heads, query_len, k]
};

/// One sequence of a ragged batch. Sequences of a batch may differ in lengths and options, not in
/// head counts, widths or dtype. All memory is borrowed.
struct AttentionSequence {
  HeadsView query;  // [query_len, num_heads, head_dim]
  HeadsView key;    // [kv_len, num_kv_heads, head_dim]
  HeadsView value;  // [kv_len, num_kv_heads, value_head_dim]
  /// [query_len, num_heads, value_head_dim]; any dtype.
  MutableHeadsView output;
  /// f32 [num_heads, query_len, kv_len], or null.
  float* weights = nullptr;
  /// `k` 0: none.
  TopWeights top_weights = {};
  /// f32 [num_heads, query_len], or null: the natural logarithm of the sum of what is normalised
  /// (softmax: of the exponentials of the logits, sinks apart); -infinity for a row that sees no
  /// key. What MergePartials needs.
  float* log_sum_exp = nullptr;
  /// Or null. With it, keys and values come from there; `key` and `value` stay empty, and key_norm
  /// and rotary have been applied to keys when they were appended.
  const KvCache* cache = nullptr;
  AttentionOptions options = {};
};

/// Called when rows are final, in row order of each sequence, by the thread that runs the
/// computation. Returns whether to go on: after false nothing more is computed and the call returns
/// CANCELLED.
using RowsCallback = std::function<bool(const RowRange& rows)>;

/// INVALID_ARGUMENT names the first field of `sequences` that is wrong, what was expected and what
/// was found.
absl::Status Validate(std::span<const AttentionSequence> sequences);

/// output = softmax(logits) value for every sequence and head, by online softmax over tiles of keys
/// (Milakov & Gimelshein 2018; Dao et al. 2022): the score matrix is never stored; or the other
/// similarities' weighted mean. Inputs f32 or bf16 (f16: f32 arithmetic; regression and linear
/// attention too), accumulation f32. A row that sees no key gives zeros; a key that a row does not
/// see never reaches that row, even when it holds NaN.
///
/// The bits of a row depend on its own query, keys, values and options and on the instruction set,
/// on nothing else: not on the batch, the number of threads, `on_rows`, or how a sequence's rows
/// are cut into calls.
///
/// With `on_rows`, rows are finished in blocks of about `block_rows` and announced as they are.
/// Errors: those of Validate; CANCELLED.
absl::Status ScaledDotProductAttention(std::span<const AttentionSequence> sequences,
                                       Workspace& workspace, const RowsCallback& on_rows = nullptr,
                                       int64_t block_rows = 256);

}  // namespace attention
