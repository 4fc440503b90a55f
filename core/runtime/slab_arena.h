// Memory slots of equal size in huge pages.
#pragma once

#include <cstddef>
#include <list>
#include <vector>

#include "core/runtime/mutex.h"

namespace attention {

/// Allocates slots from slabs of huge pages, which hold 16 MiB or one slot. Reading through huge
/// pages seldom misses the TLB; on a virtual machine TLB misses cost up to half of the bandwidth. A
/// slab without a slot in use is returned to the system, except for one. Both calls take constant
/// time, but for the system's. Thread-safe.
class SlabArena {
 public:
  struct Slab;
  struct Slot {
    std::byte* memory = nullptr;
    Slab* slab = nullptr;  // the arena's
  };

  /// Makes an arena for slots of at least `slot_bytes`, 64-byte aligned.
  explicit SlabArena(size_t slot_bytes);
  ~SlabArena();
  SlabArena(const SlabArena&) = delete;
  SlabArena& operator=(const SlabArena&) = delete;

  /// Takes a slot, whose contents are undefined. Throws std::bad_alloc; the arena is then
  /// unchanged.
  Slot Take();
  /// Gives a slot back. It allocates no memory.
  void GiveBack(const Slot& slot);

 private:
  void AddSlab() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t slot_bytes_;
  const size_t slots_per_slab_;
  const size_t slab_bytes_;
  Mutex mutex_;
  std::list<Slab> full_ ABSL_GUARDED_BY(mutex_);
  // The slabs with a free slot. A slab without a slot in use is the last, so that the others fill
  // first.
  std::list<Slab> with_room_ ABSL_GUARDED_BY(mutex_);
  Slab* unused_ ABSL_GUARDED_BY(mutex_) = nullptr;  // the slab without a slot in use that is kept
};

struct SlabArena::Slab {
  std::byte* first;
  std::vector<std::byte*> free;     // with room for every slot
  std::list<Slab>::iterator place;  // in the list that holds it
};

}  // namespace attention
