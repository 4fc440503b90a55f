// The memory of consecutive tokens of a cache, for all heads.
#pragma once

#include <cstdint>
#include <memory>

#include "core/attention/kv_memory.h"
#include "core/kernels/attention/packed_layout.h"
#include "core/tensor/tensor.h"

namespace attention {

class KvPage {
 public:
  /// Makes a page for `capacity` tokens, a multiple of kKeyBlock; null when `memory` has no room.
  /// `replaced_bytes` of the used memory do not count: pages that this one and others replace.
  /// Throws std::bad_alloc.
  static std::shared_ptr<KvPage> Make(const KvCacheShape& shape, int64_t capacity,
                                      const std::shared_ptr<KvMemory>& memory,
                                      size_t replaced_bytes);
  ~KvPage();
  KvPage(const KvPage&) = delete;
  KvPage& operator=(const KvPage&) = delete;

  static size_t SizeBytes(const KvCacheShape& shape, int64_t capacity);

  int64_t capacity() const { return capacity_; }
  size_t size_bytes() const { return SizeBytes(shape_, capacity_); }
  HeadPage Head(int64_t head) const;
  /// Copies the other page's blocks that hold its first `tokens` tokens. REQUIRES: they fit.
  void CopyFrom(const KvPage& other, int64_t tokens);
  /// Copies those of one head.
  void CopyHeadFrom(const KvPage& other, int64_t tokens, int64_t head);

 private:
  KvPage(const KvCacheShape& shape, int64_t capacity, std::shared_ptr<KvMemory> memory);

  const KvCacheShape shape_;
  const int64_t capacity_;
  SlabArena::Slot slot_;  // memory_'s
  const std::shared_ptr<KvMemory> memory_;
};

/// Returns the dtype of the rows that are written into a cache of the storage.
inline Dtype RowDtypeOf(KeyValueStorage storage) {
  return storage == KeyValueStorage::kBf16 ? Dtype::kBf16 : Dtype::kF32;
}

/// Writes rows of one head into a page, in the format of the storage.
class KvRowWriter {
 public:
  KvRowWriter(const KvCacheShape& shape, const HeadPage& page) : shape_(shape), page_(page) {}

  /// Zeroes the block that starts at token `first` of the page.
  void ClearBlock(int64_t first) const;

  /// Writes rows [count, width] to tokens [first, first + count) of the page, within one block:
  /// dense, of RowDtypeOf(storage).
  void WriteKeys(const void* rows, int64_t first, int64_t count) const;
  void WriteValues(const void* rows, int64_t first, int64_t count) const;

 private:
  void QuantiseKeys(const void* rows, int64_t first, int64_t count) const;
  void QuantiseValues(const void* rows, int64_t first, int64_t count) const;

  const KvCacheShape& shape_;
  const HeadPage& page_;
};

}  // namespace attention
