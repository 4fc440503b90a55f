// What the attention call and the attention layer share.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/attention/attention.h"
#include "core/kernels/flash_attention.h"
#include "core/tensor/ragged.h"

namespace attention {

/// Fills in the defaults. REQUIRES: Validate accepts the sequence.
FlashSequence Resolve(const AttentionSequence& sequence);

/// Calls `on_rows` for every piece; false when it asked to stop.
bool Announce(const Stage& stage, const RowsCallback& on_rows);

/// Rows of a stage: a multiple of the key block, since each stage of a causal layer packs its own
/// rows' keys.
inline int64_t BlockRows(int64_t wanted) {
  return RoundUp(std::max<int64_t>(wanted, 1), kKeyBlock);
}

}  // namespace attention
