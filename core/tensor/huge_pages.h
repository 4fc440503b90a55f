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

}  // namespace attention
