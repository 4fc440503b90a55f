// Scaled dot-product attention over ragged batches: the public entry of the core for callers with
// their own query, key and value.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "core/runtime/workspace.h"
#include "core/tensor/ragged.h"
#include "core/tensor/tensor.h"

namespace attention {

/// What one sequence asks for.
struct AttentionOptions {
  /// Row i stands at key position p = query_offset + i and sees keys j <= p.
  bool causal = false;
  /// Factor of query . key; default 1 / sqrt(head_dim). Finite, any sign.
  std::optional<float> scale;
  /// Default kv_len - query_len: the last row stands at the last key (bottom-right alignment). May
  /// be negative.
  std::optional<int64_t> query_offset;
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
  AttentionOptions options;
};

/// Called when rows are final, in row order of each sequence, by the thread that runs the
/// computation. Returns whether to go on: after false nothing more is computed and the call returns
/// CANCELLED.
using RowsCallback = std::function<bool(const RowRange& rows)>;

/// INVALID_ARGUMENT names the first field of `sequences` that is wrong, what was expected and what
/// was found.
absl::Status Validate(std::span<const AttentionSequence> sequences);

/// output = softmax(scale * query key^T, masked) value for every sequence and head, by online
/// softmax over tiles of keys (Milakov & Gimelshein 2018; Dao et al. 2022): the score matrix is
/// never stored. Inputs f32 or bf16 (f16: f32 arithmetic), accumulation f32. A row that sees no key
/// gives zeros; a key no row may see never reaches an output, even when it holds NaN.
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
