// Packs keys and values into the memory from which products read them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/kernels/attention/packed_layout.h"
#include "core/kernels/attention/query_tile.h"
#include "core/kernels/attention/rotary.h"

namespace attention {

/// Keys [first_key, first_key + count) of one key/value head, and their values. first_key is a
/// multiple of kKeyBlock.
struct KeysToPack {
  const FlashSequence* sequence = nullptr;
  const AttentionPlan* plan = nullptr;
  const RotaryTable* rotations = nullptr;  // row j: key j
  int64_t first_key = 0;
  int64_t count = 0;
  int64_t kv_head = 0;
  HeadPage page;
  int64_t page_key = 0;  // the key with which the page begins, a multiple of kKeyBlock
  /// Zeros follow the last key up to a multiple of this. Products of other similarities than the
  /// dot product read whole key blocks, which are then filled up.
  int64_t key_step = kKeyStep;
};

/// Returns the format in which keys are packed that no cache holds.
KeyValueStorage StorageOf(const AttentionPlan& plan);

/// Returns the layout of a head of `keys` keys, which is rounded up to whole key blocks. Its values
/// lie in panels where that is faster (AttentionPlan::panel_columns), but those of linear attention
/// do not.
HeadLayout LayOutHead(const AttentionPlan& plan, Similarity similarity, int64_t keys);

/// Packs them, the keys after their norm, rotation and feature map. `scratch` has room for
/// kKeyBlock prepared rows.
void PackKeys(const KeysToPack& keys, std::byte* scratch);

}  // namespace attention
