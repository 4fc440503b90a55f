// The caches of a layer call's sequences. Internal to core/layers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "core/layers/multi_head_attention.h"
#include "core/tensor/ragged.h"

namespace attention {

class CachedKeys {
 public:
  CachedKeys(const MultiHeadAttention& layer, const LayerCall& call, ThreadPool& pool);

  /// Makes room for all that the call appends, so that views of the caches stay valid while it
  /// does. Errors: INVALID_ARGUMENT for a cache that does not fit, RESOURCE_EXHAUSTED.
  absl::Status Reserve() const;

  /// Tokens that the sequence's cache held before the call; 0 without.
  int64_t Held(int64_t sequence) const { return held_[sequence]; }

  /// Rows of one sequence, and their keys and values.
  struct Piece {
    int64_t sequence = 0;
    HeadsView key;
    HeadsView value;
  };
  /// REQUIRES: Reserve was OK; the sequences have caches.
  absl::Status Append(std::span<const Piece> pieces) const;

 private:
  absl::Status Check(int64_t sequence) const;
  /// Two sequences with one cache would write to it at once.
  absl::Status CheckShared() const;

  const MultiHeadAttention& layer_;
  const LayerCall& call_;
  ThreadPool& pool_;
  std::vector<int64_t> held_;    // [sequences]
  std::vector<int64_t> cached_;  // the sequences that have one
};

}  // namespace attention
