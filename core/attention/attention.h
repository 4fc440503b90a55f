// Scaled dot-product attention over ragged batches: the public entry of the core for callers with
// their own query, key and value.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "core/attention/attention_sequence.h"
#include "core/runtime/slices.h"
#include "core/runtime/workspace.h"

namespace attention {

/// Checks the sequences. INVALID_ARGUMENT names the first field of `sequences` that is wrong, what
/// was expected and what was found.
absl::Status Validate(std::span<const AttentionSequence> sequences);

/// How a call is divided into stages and slices.
struct AttentionStages {
  /// Announces rows as soon as they are final. Null: rows are computed in one stage.
  RowsCallback on_rows = nullptr;
  /// The number of rows of a stage, about; it is rounded up to a multiple of 64.
  int64_t block_rows = 256;
  /// Slices within stages, and while keys are packed: at least a query tile of one head, or 512
  /// keys. Between them another call may use the same pool with another workspace.
  Slices slices = {};
};

/// Computes output = softmax(logits) value for every sequence and head, by online softmax over key
/// tiles (Milakov & Gimelshein 2018; Dao et al. 2022), which never stores the score matrix. For the
/// other similarities the output is the weighted mean of the values. Inputs are multiplied as f32
/// or bf16 (f16 inputs, regression and linear attention as f32), with an 8-bit cache on x86-64 as
/// 8-bit integers, and added up as f32. The output of a row that attends to no key is zeros. A key
/// that is hidden from a row never affects that row, even if it holds NaN.
///
/// The bits of a row depend only on its own query, keys, values and options and on the instruction
/// set, not on the batch, the number of threads, `stages`, or how a sequence's rows are divided
/// into calls. Calls with different workspaces may run at the same time.
///
/// Errors: those of Validate; CANCELLED when a callback returned false. Throws std::bad_alloc and
/// KernelError (core/README.md); the output is undefined after both, as after CANCELLED.
absl::Status ScaledDotProductAttention(std::span<const AttentionSequence> sequences,
                                       Workspace& workspace, const AttentionStages& stages = {});

}  // namespace attention
