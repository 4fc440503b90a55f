// Memory in huge pages. Reading through huge pages seldom misses the TLB; on a virtual machine TLB
// misses cost up to half of the bandwidth.
#pragma once

#include <cstddef>

#include "core/runtime/numa.h"

namespace attention {

inline constexpr size_t kHugePageBytes = size_t{2} << 20;

/// Maps zeroed memory and asks the system to back it with huge pages, on all NUMA nodes in turn.
/// The memory is always fresh, since memory that was used before would keep its small pages.
/// `size_bytes` is a multiple of kHugePageBytes, and so is the address. Fewer bytes than that are a
/// multiple of 4 KiB, and get small pages. Throws std::bad_alloc.
std::byte* MapHugePages(size_t size_bytes);
void UnmapHugePages(std::byte* data, size_t size_bytes);

/// A zeroed buffer for large data with a long life. It uses huge pages where whole ones fit in, and
/// its memory returns to the system as soon as it is destroyed. Movable. Throws std::bad_alloc.
class MappedBuffer {
 public:
  MappedBuffer() = default;
  /// Maps memory whose pages come from `node`, or from all NUMA nodes in turn.
  explicit MappedBuffer(size_t size_bytes, int node = kAllNumaNodes);
  MappedBuffer(MappedBuffer&& other) noexcept;
  MappedBuffer& operator=(MappedBuffer&& other) noexcept;
  ~MappedBuffer();

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t size_bytes() const { return size_bytes_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
};

}  // namespace attention
