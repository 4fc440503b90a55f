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

  /// A slot, contents undefined.
  std::byte* Take();
  void GiveBack(std::byte* slot);

 private:
  struct Slab {
    std::vector<std::byte*> free;
  };

  const size_t slot_bytes_;
  const size_t slots_per_slab_;
  const size_t slab_bytes_;
  Mutex mutex_;
  std::map<std::byte*, Slab> slabs_ ABSL_GUARDED_BY(mutex_);  // by their first byte
};

}  // namespace attention
