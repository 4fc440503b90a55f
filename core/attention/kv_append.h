// Appends to a cache in three steps. Several threads may share the longest one.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "core/attention/kv_cache.h"
#include "core/kernels/attention/head_rows.h"
#include "core/kernels/attention/rotary.h"
#include "core/tensor/tensor.h"

namespace attention {

/// Does what KvCache::Append does, in three steps: Begin, WriteHead for every key/value head,
/// Finish.
class KvAppend {
 public:
  /// Borrows the cache, the rows, what the preparation points to, and the rotations of the rows'
  /// positions; null: Begin makes them if they are needed.
  KvAppend(KvCache& cache, const HeadsView& key, const HeadsView& value,
           const KeyPreparation& preparation, const RotaryTable* rotations = nullptr)
      : cache_(&cache),
        key_(key),
        value_(value),
        preparation_(preparation),
        rotations_(rotations) {}

  /// Checks the rows and makes room. It returns the errors of Append; after an error the cache is
  /// unchanged.
  absl::Status Begin();
  /// Writes the rows of one head, behind a copy of what a shared last page has of it. Threads may
  /// write different heads at the same time.
  void WriteHead(int64_t head) const;
  /// Adds the tokens to the length of the cache. REQUIRES: every head was written.
  void Finish();

 private:
  struct Rows;
  absl::Status Check() const;
  void Write(const Rows& rows, int64_t head) const;

  KvCache* cache_;
  HeadsView key_;
  HeadsView value_;
  KeyPreparation preparation_;
  const RotaryTable* rotations_;
  RotaryTable own_rotations_;
};

}  // namespace attention
