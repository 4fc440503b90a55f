// The threads and reusable memory of one caller of the core.
#pragma once

#include <cstddef>
#include <vector>

#include "core/runtime/aligned_buffer.h"
#include "core/runtime/thread_pool.h"

namespace attention {

/// A buffer for repeated requests of similar sizes. It grows when needed and keeps its memory.
class ReusableBuffer {
 public:
  /// Returns at least `size_bytes`, 64-byte aligned, with undefined contents; valid until the next
  /// call.
  std::byte* Reserve(size_t size_bytes);
  size_t size_bytes() const { return buffer_.size_bytes(); }
  void Free() { buffer_ = AlignedBuffer(); }

 private:
  AlignedBuffer buffer_;
};

/// The thread pool and the buffers of one computation at a time. It keeps its buffers between
/// calls, so that a steady load allocates nothing.
class Workspace {
 public:
  /// The purposes of the buffers. Each buffer lives across the phases of one layer call.
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
    kFeedForward,   // the wide rows between its two products
    kHiddenStates,  // between the layers of a whole model
    kMemoryStates,  // of the encoder
    kParallelNormed,
    kRawOutput,
    kNumSlots
  };

  explicit Workspace(ThreadPool& pool) : pool_(pool), scratch_(pool.num_threads()) {}

  ThreadPool& pool() { return pool_; }
  /// Returns private memory of a worker for one task; its contents are undefined afterwards.
  std::byte* Scratch(int worker, size_t size_bytes) { return scratch_[worker].Reserve(size_bytes); }
  std::byte* Buffer(Slot slot, size_t size_bytes) { return buffers_[slot].Reserve(size_bytes); }

  size_t size_bytes() const;
  /// Frees the buffers when they hold more than `max_bytes` in total.
  void Trim(size_t max_bytes);

 private:
  ThreadPool& pool_;
  std::vector<ReusableBuffer> scratch_;
  ReusableBuffer buffers_[kNumSlots];
};

}  // namespace attention
