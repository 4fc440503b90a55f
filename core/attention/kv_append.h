// Appending to a cache in steps, of which the long one may be shared by several threads.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "core/attention/kv_cache.h"
#include "core/kernels/head_rows.h"
#include "core/kernels/rotary.h"
#include "core/tensor/tensor.h"

namespace attention {

/// KvCache::Append as Begin, WriteHead for every key/value head, Finish.
class KvAppend {
 public:
  /// Borrows the cache, the rows and what the preparation points to.
  KvAppend(KvCache& cache, const HeadsView& key, const HeadsView& value,
           const KeyPreparation& preparation)
      : cache_(&cache), key_(key), value_(value), preparation_(preparation) {}

  /// Checks, and makes room. The errors are Append's, and then the cache is as it was.
  absl::Status Begin();
  /// Different heads may be written at once.
  void WriteHead(int64_t head) const;
  /// The tokens are there.
  void Finish();

 private:
  struct Rows;
  absl::Status Check() const;
  void Write(const Rows& rows, int64_t head) const;

  KvCache* cache_;
  HeadsView key_;
  HeadsView value_;
  KeyPreparation preparation_;
  RotaryTable table_;
};

}  // namespace attention
