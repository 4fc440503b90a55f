#include "tests/server/failures/injection.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

// Of the linker: where this program's own code is.
extern "C" const char __executable_start;
extern "C" const char etext;

namespace attention {
namespace {

std::atomic<int64_t> left[2] = {};  // 0: nothing fails
constexpr int64_t kLooking = -1;    // a thread whose turn it is looks whether it may fail
thread_local bool is_spared = false;

bool IsOurs(const void* caller) { return caller >= &__executable_start && caller < &etext; }

/// oneDNN is a library of its own where the distribution's is new enough, else a part of this
/// program; its mappings are the memory of generated kernels.
bool IsOfOneDnn(const void* caller) {
  Dl_info info;
  return dladdr(caller, &info) != 0 && std::strstr(info.dli_fname, "/libdnnl") != nullptr;
}

/// Of templates that both have, gRPC and the C++ library run our copy: then they stand further up,
/// gRPC anywhere, the library right behind the few frames of a template.
bool IsOfOthers() {
  constexpr int kFramesOfATemplate = 12;
  void* frames[100];
  const int count = backtrace(frames, 100);
  for (int i = 0; i < count; ++i) {
    Dl_info info;
    if (dladdr(frames[i], &info) == 0) {
      continue;
    }
    if (std::strstr(info.dli_fname, "/libgrpc") != nullptr ||
        (i < kFramesOfATemplate && std::strstr(info.dli_fname, "/libstdc++") != nullptr)) {
      return true;
    }
  }
  return false;
}

/// What is not to fail when its turn comes leaves the turn to the next one.
bool Fails(Resource resource, const void* caller) {
  std::atomic<int64_t>& count = left[static_cast<int>(resource)];
  if (count.load(std::memory_order_relaxed) <= 0 || is_spared) {
    return false;
  }
  if (!IsOurs(caller) && (resource != Resource::kMapping || !IsOfOneDnn(caller))) {
    return false;
  }
  int64_t last = 0;
  if (count.fetch_sub(1) != 1 || !count.compare_exchange_strong(last, kLooking)) {
    return false;
  }
  is_spared = true;  // the look at the stack allocates
  // No template maps memory. A kernel that a new thread generates has the library right behind it.
  const bool is_of_others = resource != Resource::kMapping && IsOfOthers();
  is_spared = false;
  // Unless it was all over meanwhile.
  int64_t looking = kLooking;
  return count.compare_exchange_strong(looking, is_of_others ? 1 : 0) && !is_of_others;
}

void* Allocate(size_t size, size_t alignment, const void* caller) {
  void* const memory =
      Fails(Resource::kHeap, caller)
          ? nullptr
          : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr && size > 0) {
    throw std::bad_alloc();
  }
  return memory;
}

}  // namespace

void FailNth(Resource resource, int64_t n) { left[static_cast<int>(resource)] = n; }

bool StopFailing() {
  const bool heap_is_left = left[0].exchange(0) > 0;
  const bool mapping_is_left = left[1].exchange(0) > 0;
  return !heap_is_left && !mapping_is_left;
}

void SpareThisThread(bool spares) {
  is_spared = spares;
  IsOfOthers();  // the first look loads the unwinder
}

}  // namespace attention

void* operator new(size_t size) {
  return attention::Allocate(size, alignof(std::max_align_t), __builtin_return_address(0));
}
void* operator new[](size_t size) {
  return attention::Allocate(size, alignof(std::max_align_t), __builtin_return_address(0));
}
void* operator new(size_t size, std::align_val_t alignment) {
  return attention::Allocate(size, static_cast<size_t>(alignment), __builtin_return_address(0));
}
void* operator new[](size_t size, std::align_val_t alignment) {
  return attention::Allocate(size, static_cast<size_t>(alignment), __builtin_return_address(0));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

// The C library's own mappings (of malloc, of threads) do not come here.
extern "C" void* mmap(void* address, size_t length, int protection, int flags, int file,
                      off_t offset) noexcept {
  if (attention::Fails(attention::Resource::kMapping, __builtin_return_address(0))) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return reinterpret_cast<void*>(
      syscall(SYS_mmap, address, length, protection, flags, file, offset));
}
