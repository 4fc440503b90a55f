#include "core/runtime/slab_arena.h"

#include <algorithm>

#include "core/runtime/round_up.h"

namespace attention {

SlabArena::SlabArena(size_t slot_bytes)
    : slot_bytes_(RoundUpToLine(slot_bytes)),
      slots_per_slab_(std::max<size_t>(1, kSlabBytes / slot_bytes_)),
      slab_bytes_(RoundUp(slots_per_slab_ * slot_bytes_, kHugePageBytes)) {}

SlabArena::~SlabArena() {
  for (const std::list<Slab>* slabs : {&full_, &with_room_}) {
    for (const Slab& slab : *slabs) {
      UnmapHugePages(slab.first, slab_bytes_);
    }
  }
}

void SlabArena::AddSlab() {
  std::list<Slab> added(1);
  Slab& slab = added.front();
  slab.free.reserve(slots_per_slab_);
  slab.first = MapHugePages(slab_bytes_);
  for (size_t i = slots_per_slab_; i > 0; --i) {
    slab.free.push_back(slab.first + (i - 1) * slot_bytes_);
  }
  slab.place = added.begin();
  with_room_.splice(with_room_.begin(), added);
}

SlabArena::Slot SlabArena::Take() {
  if (with_room_.empty()) {
    AddSlab();
  }
  Slab& slab = with_room_.front();
  const Slot slot{slab.free.back(), &slab};
  slab.free.pop_back();
  if (&slab == unused_) {
    unused_ = nullptr;
  }
  if (slab.free.empty()) {
    full_.splice(full_.begin(), with_room_, slab.place);
  }
  return slot;
}

void SlabArena::GiveBack(const Slot& slot) {
  Slab& slab = *slot.slab;
  std::list<Slab>& list = slab.free.empty() ? full_ : with_room_;
  slab.free.push_back(slot.memory);
  const bool is_unused = slab.free.size() == slots_per_slab_;
  // One unused slab is kept, so that taking and giving back a single slot does not map and unmap a
  // slab each time.
  if (is_unused && unused_ != nullptr) {
    UnmapHugePages(slab.first, slab_bytes_);
    list.erase(slab.place);
    return;
  }
  if (is_unused) {
    unused_ = &slab;
  }
  if (is_unused || &list == &full_) {
    with_room_.splice(is_unused ? with_room_.end() : with_room_.begin(), list, slab.place);
  }
}

void SlabArena::ReleaseUnused() {
  if (unused_ != nullptr) {
    UnmapHugePages(unused_->first, slab_bytes_);
    with_room_.erase(unused_->place);
    unused_ = nullptr;
  }
}

}  // namespace attention
