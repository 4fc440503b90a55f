// Memory in huge pages: reading through them misses the TLB seldom, which on a virtual machine is
// worth half the bandwidth.
#pragma once

#include <cstddef>

namespace attention {

inline constexpr size_t kHugePageBytes = size_t{2} << 20;

/// Asks the system to back [data, data + size_bytes) with huge pages, where they are whole. Only
/// advice. REQUIRES: data is a multiple of 4096.
void AdviseHugePages(void* data, size_t size_bytes);

}  // namespace attention
