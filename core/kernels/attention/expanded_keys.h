// Stored keys and values in the compute type.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/kernels/attention/attention_plan.h"
#include "core/kernels/attention/packed_layout.h"

namespace attention {

/// Keys and values of one head that a thread has converted to the compute type (f32). It keeps them
/// for its next query tiles, which are often of the same head: one key tile, or the whole head
/// where that has at most one key section. Not thread-safe.
class ExpandedKeys {
 public:
  /// Returns the floats of memory for a plan.
  static int64_t Floats(const AttentionPlan& plan) {
    return kKeySection * (plan.depth() + plan.value_width());
  }
  /// Borrows both.
  ExpandedKeys(const AttentionPlan& plan, float* memory)
      : plan_(plan), keys_(memory), values_(memory + kKeySection * plan.depth()) {}

  /// Begins with a head that has `kv_len` keys. Forgets the keys of other heads. REQUIRES: the
  /// stored keys of a head do not change while the object lives.
  void Begin(const PackedHead& head, int64_t kv_len) {
    if (pages_ != head.pages) {
      std::fill_n(tiles_, kKeyTiles, KeyTileKept{});
    }
    pages_ = head.pages;
    capacity_ = kv_len <= kKeySection ? kKeySection : kKeyTile;
  }

  /// Returns how many keys of the key tile from `first_key` on are converted.
  int64_t Converted(int64_t first_key) const {
    const KeyTileKept& tile = tiles_[first_key % capacity_ / kKeyTile];
    return tile.first_key == first_key ? tile.count : 0;
  }
  void SetConverted(int64_t first_key, int64_t count) {
    tiles_[first_key % capacity_ / kKeyTile] = {first_key, count};
  }

  /// The key block of `key`, and the values from `key` on.
  float* Keys(int64_t key) const { return keys_ + key % capacity_ * plan_.depth(); }
  float* Values(int64_t key) const { return values_ + key % capacity_ * plan_.value_width(); }

 private:
  static constexpr int64_t kKeyTiles = kKeySection / kKeyTile;
  struct KeyTileKept {
    int64_t first_key = -1;
    int64_t count = 0;
  };

  const AttentionPlan& plan_;
  float* keys_;
  float* values_;
  const HeadPage* pages_ = nullptr;
  int64_t capacity_ = kKeyTile;
  KeyTileKept tiles_[kKeyTiles];
};

}  // namespace attention
