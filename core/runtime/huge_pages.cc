#include "core/runtime/huge_pages.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>
#include <utility>

namespace attention {
namespace {

// Placing allocates.
void PlaceOrUnmap(void* mapped, size_t size_bytes, int node) {
  try {
    PlaceMemory(mapped, size_bytes, node);
  } catch (...) {
    munmap(mapped, size_bytes);
    throw;
  }
}

std::byte* Map(size_t size_bytes) {
  void* mapped =
      mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) {
    throw std::bad_alloc();
  }
  return static_cast<std::byte*>(mapped);
}

}  // namespace

std::byte* MapHugePages(size_t size_bytes) {
  if (size_bytes < kHugePageBytes) {
    std::byte* const small = Map(size_bytes);
    PlaceOrUnmap(small, size_bytes, kAllNumaNodes);
    return small;
  }
  std::byte* const first = Map(size_bytes + kHugePageBytes);
  const size_t excess = reinterpret_cast<uintptr_t>(first) % kHugePageBytes;
  const size_t skipped = excess == 0 ? 0 : kHugePageBytes - excess;
  if (skipped > 0) {
    munmap(first, skipped);
  }
  munmap(first + skipped + size_bytes, kHugePageBytes - skipped);
  madvise(first + skipped, size_bytes, MADV_HUGEPAGE);
  PlaceOrUnmap(first + skipped, size_bytes, kAllNumaNodes);
  return first + skipped;
}

void UnmapHugePages(std::byte* data, size_t size_bytes) { munmap(data, size_bytes); }

MappedBuffer::MappedBuffer(size_t size_bytes, int node) : size_bytes_(size_bytes) {
  if (size_bytes == 0) {
    return;
  }
  std::byte* const mapped = Map(size_bytes);
  madvise(mapped, size_bytes, MADV_HUGEPAGE);
  PlaceOrUnmap(mapped, size_bytes, node);
  data_ = mapped;
}

MappedBuffer::MappedBuffer(MappedBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

MappedBuffer& MappedBuffer::operator=(MappedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

MappedBuffer::~MappedBuffer() {
  if (data_ != nullptr) {
    munmap(data_, size_bytes_);
  }
}

}  // namespace attention
