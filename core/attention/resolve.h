// Functions that the attention call and the attention layer share.
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "core/attention/attention_sequence.h"
#include "core/kernels/attention/flash_attention.h"
#include "core/kernels/tile/key_block.h"
#include "core/runtime/round_up.h"
#include "core/tensor/ragged.h"

namespace attention {

/// Fills in the defaults. `coming_keys` is the number of keys that the sequence's cache has room
/// for, and that are appended before rows attend to them. REQUIRES: Validate accepts the sequence.
FlashSequence Resolve(const AttentionSequence& sequence, int64_t coming_keys = 0);

/// Calls `on_rows` for every row range of the stage. CANCELLED when `on_rows` returned false.
absl::Status Announce(const Stage& stage, const RowsCallback& on_rows);

/// Returns `rows`, rounded up to the rows of a stage: a multiple of the key block, since each stage
/// of a causal layer packs the keys of its own rows. More than kMaxPosition rows are all rows.
inline int64_t RoundUpToStage(int64_t rows) {
  return RoundUp(std::clamp<int64_t>(rows, 1, kMaxPosition), kKeyBlock);
}

}  // namespace attention
