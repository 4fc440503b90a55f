// Memory in huge pages: reading through them misses the TLB seldom, which on a virtual machine is
// worth half the bandwidth.
#pragma once

#include <cstddef>

namespace attention {

inline constexpr size_t kHugePageBytes = size_t{2} << 20;

/// Fresh zeroed memory from the system, which is asked to back it with huge pages: memory that was
/// used before would keep the small pages it has. `size_bytes` is a multiple of kHugePageBytes, as
/// the address will be. Throws std::bad_alloc.
std::byte* MapHugePages(size_t size_bytes);
void UnmapHugePages(std::byte* data, size_t size_bytes);

/// Zeroed memory of its own from the system, in huge pages where whole ones fit in, which goes back
/// to the system at once: for what is large and stays long. Movable. Throws std::bad_alloc.
class MappedBuffer {
 public:
  MappedBuffer() = default;
  explicit MappedBuffer(size_t size_bytes);
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
