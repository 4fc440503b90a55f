// Threads and reusable memory of one caller of the core.
#pragma once

#include <cstddef>
#include <vector>

#include "core/runtime/thread_pool.h"
#include "core/tensor/tensor.h"

namespace attention {

/// Memory that is asked for again and again with similar sizes: grows when needed and is kept for
/// the next call.
class ReusableBuffer {
 public:
  /// At least `size_bytes`, 64-byte aligned, contents undefined; valid until the next call.
  std::byte* Reserve(size_t size_bytes);
  size_t size_bytes() const { return buffer_.size_bytes(); }
  void Free() { buffer_ = AlignedBuffer(); }

 private:
  AlignedBuffer buffer_;
};

/// One computation at a time. Keeps its buffers between calls so that a steady load allocates
/// nothing.
class Workspace {
 public:
  /// Purposes of the buffers, each live across the phases of one layer call.
  enum Slot {
    kInput,  // belongs to the caller of the core
    kConvertedInput,
    kConvertedMemory,
    kProjected,
    kProjectedMemory,
    kPackedKeyValue,
    kContext,
    kQuantised,  // of one product
    kNormed,
    kHidden,  // of a feed-forward layer
    kStream,  // rows of a whole model, between its layers
    kMemoryStream,
    kParallelNormed,
    kRawOutput,
    kNumSlots
  };

  explicit Workspace(ThreadPool& pool) : pool_(pool), scratch_(pool.num_threads()) {}

  ThreadPool& pool() { return pool_; }
  /// Private memory of a worker within one task; undefined afterwards.
  std::byte* Scratch(int worker, size_t size_bytes) { return scratch_[worker].Reserve(size_bytes); }
  std::byte* Buffer(Slot slot, size_t size_bytes) { return buffers_[slot].Reserve(size_bytes); }

  size_t size_bytes() const;
  /// Gives back buffers when they hold more than `max_bytes` in all.
  void Trim(size_t max_bytes);

 private:
  ThreadPool& pool_;
  std::vector<ReusableBuffer> scratch_;
  ReusableBuffer buffers_[kNumSlots];
};

}  // namespace attention
