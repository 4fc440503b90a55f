// One sequence of a call of attention.
#pragma once

#include <cstdint>
#include <functional>

#include "core/kernels/attention/options.h"
#include "core/tensor/ragged.h"
#include "core/tensor/tensor.h"

namespace attention {

class KvCache;

/// The k largest weights of each row, largest first (equal ones: the earlier key first). Which ones
/// are the largest is decided before they are normalised, where fewer are equal. Where a row
/// attends to fewer keys, or other weights are too small for f32, the remaining entries have weight
/// 0 and key -1. In a row whose weights are NaN they have weight NaN and key -1.
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
  /// The output, [query_len, num_heads, value_head_dim]; any dtype.
  MutableHeadsView output;
  /// The attention weights, f32 [num_heads, query_len, kv_len], or null.
  float* weights = nullptr;
  /// The largest weights of each row; `k` 0: none.
  TopWeights top_weights = {};
  /// The log-sum-exp of each row, f32 [num_heads, query_len], or null: the natural logarithm of the
  /// sum of what is normalised (softmax: of the exponentials of the logits, without the sinks);
  /// -infinity for a row that attends to no key, or whose kernel gives 0 to all. MergePartials
  /// needs it.
  float* log_sum_exp = nullptr;
  /// The cache that holds the keys and values, or null. With a cache, `key` and `value` stay empty,
  /// and key_norm and rotary were applied to the keys when these were appended.
  const KvCache* cache = nullptr;
  AttentionOptions options = {};
};

/// A callback that the computing thread calls when rows are final, in row order of each sequence.
/// It returns whether to continue: after false nothing more is computed, and the call returns
/// CANCELLED.
using RowsCallback = std::function<bool(const RowRange& rows)>;

}  // namespace attention
