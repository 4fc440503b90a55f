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

/// The largest query offset and rotary position offset, positive or negative. It is far beyond any
/// sequence, and no sum of positions overflows.
inline constexpr int64_t kMaxPosition = int64_t{1} << 40;

/// The options of one sequence. Spans, views and norm weights are borrowed.
///
/// Rows: query and key rows are normalised (`query_norm`, `key_norm`), then rotated (`rotary`).
/// Logits: softcap(scale * query . key), then - slope * |p - j|, then + bias, then the visibility
/// rules hide keys. Row i stands at key position p = query_offset + i; key j at j.
struct AttentionOptions {
  /// Row i attends to keys j <= p only.
  bool causal = false;
  /// The factor of query . key; 1 / sqrt(head_dim) by default. It is finite and may be negative.
  std::optional<float> scale = {};
  /// The position of row 0. The default is kv_len - query_len: the last row stands at the last key
  /// (bottom-right alignment). It may be negative.
  std::optional<int64_t> query_offset = {};

  /// w > 0: row i attends to keys j > p - w only: w keys, its own included. 0: unbounded.
  int64_t window = 0;
  /// r > 0: row i attends to keys j <= p + r only. 0: unbounded.
  int64_t window_right = 0;
  /// Every row attends to keys j < prefix, regardless of `causal` and the windows.
  int64_t prefix = 0;
  /// The row at such a position attends to every key, and every row attends to its key
  /// (Longformer), regardless of `causal` and the windows. Strictly ascending, in [0, kv_len).
  std::span<const int64_t> global_tokens = {};
  /// [num_heads or 1, query_len, kv_len]: a 0 hides the key from the row, regardless of all other
  /// rules.
  Mask mask = {};

  /// c > 0: a logit x becomes c * tanh(x / c). 0: none.
  float softcap = 0;
  /// [num_heads] or empty: ALiBi (Press et al. 2022).
  std::span<const float> alibi_slopes = {};
  /// f32 [num_heads or 1, query_len, kv_len], added to the logits.
  Bias bias = {};
  /// [num_heads] or empty: one more logit for each row of a head. It is added to the denominator of
  /// softmax and to nothing else.
  std::span<const float> sinks = {};

  /// Norms over head_dim elements.
  std::optional<RmsNorm> query_norm = {};
  std::optional<RmsNorm> key_norm = {};
  std::optional<Rotary> rotary = {};

  Similarity similarity = Similarity::kDotProduct;
  /// The width of the regression kernels, which need it to be > 0. They do not use scale, softcap,
  /// alibi_slopes, bias and sinks.
  double bandwidth = 0;
};

/// The k largest weights of each row, largest first (equal ones: the earlier key first). Where a
/// row attends to fewer keys, the remaining entries have weight 0 and key -1.
struct TopWeights {
  int64_t k = 0;
  float* weights = nullptr;  // [num_heads, query_len, k]
  int32_t* keys = nullptr;   // [num_heads, query_len, k]
};

/// One sequence of a ragged batch. The sequences of a batch may differ in lengths and options, but
/// not in head counts, widths or dtype. All memory is borrowed.
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
  /// (softmax: of the exponentials of the logits, sinks apart); -infinity for a row that attends to
  /// no key. MergePartials needs it.
  float* log_sum_exp = nullptr;
  /// The cache that holds the keys and values, or null. With a cache, `key` and `value` stay empty,
  /// and key_norm and rotary were applied to the keys when these were appended.
  const KvCache* cache = nullptr;
  AttentionOptions options = {};
};

/// A callback that the computing thread calls when rows are final, in row order of each sequence.
/// It returns whether to go on: after false nothing more is computed, and the call returns
/// CANCELLED.
using RowsCallback = std::function<bool(const RowRange& rows)>;

/// INVALID_ARGUMENT names the first field of `sequences` that is wrong, what was expected and what
/// was found.
absl::Status Validate(std::span<const AttentionSequence> sequences);

/// output = softmax(logits) value for every sequence and head, by online softmax over tiles of keys
/// (Milakov & Gimelshein 2018; Dao et al. 2022): the score matrix is never stored; or the weighted
/// mean of the other similarities. Inputs are multiplied as f32 or bf16 (f16 inputs, regression and
/// linear attention as f32) and accumulated as f32. The output of a row that attends to no key is
/// zeros. A key that is hidden from a row never reaches that row, even when it holds NaN.
///
/// The bits of a row depend on its own query, keys, values and options and on the instruction set,
/// on nothing else: not on the batch, the number of threads, `on_rows`, or how a sequence's rows
/// are cut into calls.
///
/// With `on_rows`, rows are computed in blocks of about `block_rows`, and each block is announced
/// as soon as it is final. Errors: those of Validate; CANCELLED.
absl::Status ScaledDotProductAttention(std::span<const AttentionSequence> sequences,
                                       Workspace& workspace, const RowsCallback& on_rows = nullptr,
                                       int64_t block_rows = 256);

}  // namespace attention
