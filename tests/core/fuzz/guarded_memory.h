// Memory between two pages that nobody may touch.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace attention {

/// `size` bytes that end at a page without access, or begin behind one: an access beyond that end
/// ends the process.
class GuardedMemory {
 public:
  enum class Side { kEnd, kBegin };

  GuardedMemory(int64_t size, Side side) {
    const int64_t page = sysconf(_SC_PAGESIZE);
    const int64_t inner = (size + page - 1) / page * page;
    mapped_bytes_ = inner + 2 * page;
    mapped_ = static_cast<std::byte*>(
        mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (mapped_ == MAP_FAILED || mprotect(mapped_, page, PROT_NONE) != 0 ||
        mprotect(mapped_ + page + inner, page, PROT_NONE) != 0) {
      std::abort();
    }
    data_ = mapped_ + page + (side == Side::kEnd ? inner - size : 0);
  }
  ~GuardedMemory() { munmap(mapped_, mapped_bytes_); }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  std::byte* data() const { return data_; }

 private:
  std::byte* mapped_ = nullptr;
  std::byte* data_ = nullptr;
  int64_t mapped_bytes_ = 0;
};

}  // namespace attention
