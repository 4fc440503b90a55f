// Memory slots of equal size in huge pages.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "core/runtime/mutex.h"

namespace attention {

/// Slots that are taken and given back at any time, many to a slab of huge pages: reading through
/// them misses the TLB seldom, which on a virtual machine is worth half the bandwidth. Slabs
/// without a taken slot are returned to the system, but for one. Thread-safe.
class SlabArena {
 public:
  /// Slots of at least `slot_bytes`, 64-byte aligned.
  explicit SlabArena(size_t slot_bytes);
  ~SlabArena();
  SlabArena(const SlabArena&) = delete;
  SlabArena& operator=(const SlabArena&) = delete;

  /// A slot, contents undefined. Throws std::bad_alloc; the arena is then as it was.
  std::byte* Take();
  /// Allocates nothing.
  void GiveBack(std::byte* slot);

 private:
  struct Slab {
    std::vector<std::byte*> free;  // with room for every slot
  };
  using Slabs = std::map<std::byte*, Slab>;  // by their first byte

  Slabs::iterator AddSlab() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t slot_bytes_;
  const size_t slots_per_slab_;
  const size_t slab_bytes_;
  Mutex mutex_;
  Slabs slabs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace attention
