// Memory slots of equal size in huge pages.
#pragma once

#include <cstddef>
#include <list>
#include <vector>

#include "core/runtime/huge_pages.h"

namespace attention {

/// Allocates slots from slabs, which it maps. The first slab has four slots, or 64 KiB if that is
/// more. Each new slab is as large as all before it together, so that few slots take little more
/// memory than their own; but no slab is larger than 16 MiB or one slot, whichever is more. Slabs
/// of 2 MiB and more have huge pages. A slab without a slot in use is returned to the system,
/// except for one. Apart from system calls, each call takes constant time. For one thread at a
/// time.
class SlabArena {
 public:
  /// The largest slab, unless a single slot is larger.
  static constexpr size_t kSlabBytes = 8 * kHugePageBytes;
  /// The smallest slab.
  static constexpr size_t kLeastSlabBytes = size_t{64} << 10;

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

  /// Returns whether Take needs no new slab.
  bool has_room() const { return !with_room_.empty(); }
  /// Returns whether no slot is in use.
  bool is_unused() const { return full_.empty() && with_room_.size() == (unused_ ? 1 : 0); }
  /// Returns the bytes of the slab that Take would map next.
  size_t next_slab_bytes() const;
  /// Returns the bytes of all slabs.
  size_t mapped_bytes() const { return mapped_bytes_; }
  /// Gives back to the system the one slab that is kept although none of its slots is in use.
  void ReleaseUnused();

 private:
  void AddSlab();
  /// Returns the slab's memory to the system.
  void Unmap(const Slab& slab);

  const size_t slot_bytes_;
  size_t mapped_bytes_ = 0;
  std::list<Slab> full_;
  // The slabs with a free slot. A slab without a slot in use is the last, so that the others fill
  // first.
  std::list<Slab> with_room_;
  Slab* unused_ = nullptr;  // the slab without a slot in use that is kept
};

struct SlabArena::Slab {
  std::byte* first;
  size_t bytes;
  size_t num_slots;
  std::vector<std::byte*> free;             // with room for every slot
  std::list<Slab>::iterator list_position;  // in the list that holds it
};

}  // namespace attention
