// The caches of a layer call's sequences. Internal to core/layers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/layers/layer_call.h"
#include "core/tensor/ragged.h"

namespace attention {

/// Returns the shape of the cache that a sequence of such a layer may have. INVALID_ARGUMENT for a
/// layer whose keys are not computed from its own rows alone.
absl::StatusOr<KvCacheShape> CacheShapeOf(const MultiHeadAttentionShape& shape, int64_t extra_keys,
                                          KeyValueStorage storage);

/// Makes room in the caches of a call, and appends to them.
class CachedKeys {
 public:
  /// Borrows the shape, the call and the pool.
  CachedKeys(const MultiHeadAttentionShape& shape, int64_t extra_keys, const LayerCall& call,
             ThreadPool& pool);

  /// Makes room for all keys and values that the call appends, so that views of the caches stay
  /// valid. Errors: INVALID_ARGUMENT for a cache that does not fit, RESOURCE_EXHAUSTED.
  absl::Status Reserve() const;

  /// Returns the number of tokens that the sequence's cache held before the call; 0 without a
  /// cache.
  int64_t Held(int64_t sequence) const { return held_[sequence]; }

  /// The keys and values of a row range of one sequence.
  struct Rows {
    int64_t sequence = 0;
    HeadsView key;
    HeadsView value;
  };
  /// Appends the keys and values. REQUIRES: Reserve was OK; the sequences have caches.
  absl::Status Append(std::span<const Rows> ranges) const;

 private:
  /// Returns for each range the rotations of its rows; null where the sequence is not rotary.
  std::vector<const RotaryTable*> RotationsOf(std::span<const Rows> ranges,
                                              RotaryTables& tables) const;
  absl::Status Check(int64_t sequence) const;
  /// Refuses two sequences with one cache, which would write to it at the same time.
  absl::Status CheckShared() const;

  const MultiHeadAttentionShape& shape_;
  const int64_t extra_keys_;
  const LayerCall& call_;
  ThreadPool& pool_;
  std::vector<int64_t> held_;    // [sequences]
  std::vector<int64_t> cached_;  // the sequences that have one
};

}  // namespace attention
