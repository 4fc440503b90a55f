#include "core/runtime/slab_arena.h"

#include <algorithm>

#include "core/runtime/round_up.h"

namespace attention {

namespace {

constexpr size_t kSmallPageBytes = 4096;
constexpr size_t kLeastSlots = 4;

}  // namespace

SlabArena::SlabArena(size_t slot_bytes) : slot_bytes_(RoundUpToLine(slot_bytes)) {}

SlabArena::~SlabArena() {
  for (const std::list<Slab>* slabs : {&full_, &with_room_}) {
    for (const Slab& slab : *slabs) {
      Unmap(slab);
    }
  }
}

size_t SlabArena::next_slab_bytes() const {
  const size_t most = std::max<size_t>(1, kSlabBytes / slot_bytes_);
  const size_t wanted = std::max(mapped_bytes_, kLeastSlabBytes) / slot_bytes_;
  const size_t bytes = std::min(std::max(wanted, kLeastSlots), most) * slot_bytes_;
  return RoundUp(bytes, bytes < kHugePageBytes ? kSmallPageBytes : kHugePageBytes);
}

void SlabArena::AddSlab() {
  const size_t bytes = next_slab_bytes();
  std::list<Slab> added(1);
  Slab& slab = added.front();
  slab.bytes = bytes;
  slab.num_slots = bytes / slot_bytes_;
  slab.free.reserve(slab.num_slots);
  slab.first = MapHugePages(bytes);
  mapped_bytes_ += bytes;
  for (size_t i = slab.num_slots; i > 0; --i) {
    slab.free.push_back(slab.first + (i - 1) * slot_bytes_);
  }
  slab.list_position = added.begin();
  with_room_.splice(with_room_.begin(), added);
}

void SlabArena::Unmap(const Slab& slab) {
  UnmapHugePages(slab.first, slab.bytes);
  mapped_bytes_ -= slab.bytes;
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
    full_.splice(full_.begin(), with_room_, slab.list_position);
  }
  return slot;
}

void SlabArena::GiveBack(const Slot& slot) {
  Slab& slab = *slot.slab;
  std::list<Slab>& list = slab.free.empty() ? full_ : with_room_;
  slab.free.push_back(slot.memory);
  const bool is_unused = slab.free.size() == slab.num_slots;
  // One unused slab is kept, so that taking and giving back a single slot does not map and unmap a
  // slab each time.
  if (is_unused && unused_ != nullptr) {
    Unmap(slab);
    list.erase(slab.list_position);
    return;
  }
  if (is_unused) {
    unused_ = &slab;
  }
  if (is_unused || &list == &full_) {
    with_room_.splice(is_unused ? with_room_.end() : with_room_.begin(), list, slab.list_position);
  }
}

void SlabArena::ReleaseUnused() {
  if (unused_ != nullptr) {
    Unmap(*unused_);
    with_room_.erase(unused_->list_position);
    unused_ = nullptr;
  }
}

}  // namespace attention
