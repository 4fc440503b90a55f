// The threads and reusable memory of one caller of the core.
#pragma once

#include <cstddef>
#include <map>
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

/// The name of a buffer, which its user declares as a constant. The address of the constant counts,
/// and the text is for readers.
struct BufferName {
  const char* text;
};

/// The thread pool and the buffers of one computation at a time. It keeps its buffers between
/// calls, so that a steady load allocates nothing.
class Workspace {
 public:
  explicit Workspace(ThreadPool& pool) : pool_(pool), scratch_(pool.num_threads()) {}

  ThreadPool& pool() { return pool_; }
  /// Returns private memory of a worker for one task; its contents are undefined afterwards.
  std::byte* Scratch(int worker, size_t size_bytes) { return scratch_[worker].Reserve(size_bytes); }
  /// Returns the buffer of this name, which lives across the phases of one call. `name` outlives
  /// the workspace.
  std::byte* Buffer(const BufferName& name, size_t size_bytes) {
    return buffers_[&name].Reserve(size_bytes);
  }

  size_t size_bytes() const;
  /// Frees the buffers when they hold more than `max_bytes` in total.
  void Trim(size_t max_bytes);

 private:
  ThreadPool& pool_;
  std::vector<ReusableBuffer> scratch_;
  std::map<const BufferName*, ReusableBuffer> buffers_;
};

}  // namespace attention
