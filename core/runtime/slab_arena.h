// Memory slots of equal size in huge pages.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "core/runtime/mutex.h"

namespace attention {

/// Allocates slots from slabs of huge pages, which hold 16 MiB or one slot. Reading through huge
/// pages seldom misses the TLB; on a virtual machine TLB misses cost up to half of the bandwidth. A
/// slab without a slot in use is returned to the system, except for one. Thread-safe.
class SlabArena {
 public:
  /// Makes an arena for slots of at least `slot_bytes`, 64-byte aligned.
  explicit SlabArena(size_t slot_bytes);
  ~SlabArena();
  SlabArena(const SlabArena&) = delete;
  SlabArena& operator=(const SlabArena&) = delete;

  /// Takes a slot, whose contents are undefined. Throws std::bad_alloc; the arena is then
  /// unchanged.
  std::byte* Take();
  /// Gives a slot back. It allocates no memory.
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
