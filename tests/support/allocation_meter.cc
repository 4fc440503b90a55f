#include "tests/support/allocation_meter.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

namespace attention {
namespace {

std::atomic<int64_t> bytes_in_use = 0;
std::atomic<int64_t> peak_bytes_in_use = 0;

void* Count(void* memory) {
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  const int64_t now = bytes_in_use += static_cast<int64_t>(malloc_usable_size(memory));
  int64_t peak = peak_bytes_in_use;
  while (now > peak && !peak_bytes_in_use.compare_exchange_weak(peak, now)) {
  }
  return memory;
}

void Free(void* memory) {
  bytes_in_use -= static_cast<int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

AllocationMeter::AllocationMeter() : first_bytes_(bytes_in_use) {
  peak_bytes_in_use = first_bytes_;
}

int64_t AllocationMeter::peak_bytes() const { return peak_bytes_in_use - first_bytes_; }

}  // namespace attention

// All forms that are used: a sanitizer's own would take the place of those that are left out, and
// report that one gave the memory and another took it back.
void* operator new(size_t size) { return attention::Count(std::malloc(std::max<size_t>(size, 1))); }
void* operator new[](size_t size) { return operator new(size); }
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  try {
    return operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new[](size_t size, const std::nothrow_t& nothrow) noexcept {
  return operator new(size, nothrow);
}
void* operator new(size_t size, std::align_val_t alignment) {
  const auto multiple = static_cast<size_t>(alignment);
  return attention::Count(std::aligned_alloc(
      multiple, (std::max<size_t>(size, 1) + multiple - 1) / multiple * multiple));
}
void* operator new[](size_t size, std::align_val_t alignment) {
  return operator new(size, alignment);
}
void operator delete(void* memory) noexcept { attention::Free(memory); }
void operator delete[](void* memory) noexcept { attention::Free(memory); }
void operator delete(void* memory, size_t) noexcept { attention::Free(memory); }
void operator delete[](void* memory, size_t) noexcept { attention::Free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { attention::Free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { attention::Free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { attention::Free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { attention::Free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { attention::Free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { attention::Free(memory); }
