#include "core/tensor/huge_pages.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

namespace attention {

std::byte* MapHugePages(size_t size_bytes) {
  const size_t mapped_bytes = size_bytes + kHugePageBytes;
  void* mapped =
      mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) {
    throw std::bad_alloc();
  }
  auto* first = static_cast<std::byte*>(mapped);
  const size_t excess = reinterpret_cast<uintptr_t>(first) % kHugePageBytes;
  const size_t skipped = excess == 0 ? 0 : kHugePageBytes - excess;
  if (skipped > 0) {
    munmap(first, skipped);
  }
  munmap(first + skipped + size_bytes, kHugePageBytes - skipped);
  madvise(first + skipped, size_bytes, MADV_HUGEPAGE);
  return first + skipped;
}

void UnmapHugePages(std::byte* data, size_t size_bytes) { munmap(data, size_bytes); }

}  // namespace attention
