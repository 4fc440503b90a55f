#include "core/runtime/slab_arena.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/runtime/huge_pages.h"

namespace attention {
namespace {

constexpr size_t kSlabBytes = 8 * kHugePageBytes;

constexpr size_t RoundUpTo(size_t bytes, size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

}  // namespace

SlabArena::SlabArena(size_t slot_bytes)
    : slot_bytes_(RoundUpTo(slot_bytes, 64)),
      slots_per_slab_(std::max<size_t>(1, kSlabBytes / slot_bytes_)),
      slab_bytes_(RoundUpTo(slots_per_slab_ * slot_bytes_, kHugePageBytes)) {}

SlabArena::~SlabArena() {
  for (const auto& [first, slab] : slabs_) {
    UnmapHugePages(first, slab_bytes_);
  }
}

SlabArena::Slabs::iterator SlabArena::AddSlab() {
  Slab slab;
  slab.free.reserve(slots_per_slab_);
  std::byte* first = MapHugePages(slab_bytes_);
  for (size_t i = slots_per_slab_; i > 0; --i) {
    slab.free.push_back(first + (i - 1) * slot_bytes_);
  }
  try {
    return slabs_.emplace(first, std::move(slab)).first;
  } catch (...) {
    UnmapHugePages(first, slab_bytes_);
    throw;
  }
}

std::byte* SlabArena::Take() {
  MutexLock lock(mutex_);
  auto with_room = std::find_if(slabs_.begin(), slabs_.end(),
                                [](const auto& entry) { return !entry.second.free.empty(); });
  if (with_room == slabs_.end()) {
    with_room = AddSlab();
  }
  std::byte* slot = with_room->second.free.back();
  with_room->second.free.pop_back();
  return slot;
}

void SlabArena::GiveBack(std::byte* slot) {
  MutexLock lock(mutex_);
  const auto slab = std::prev(slabs_.upper_bound(slot));
  slab->second.free.push_back(slot);
  const auto is_empty = [this](const auto& entry) {
    return entry.second.free.size() == slots_per_slab_;
  };
  // One empty slab is kept, so that taking and giving back a single slot does not map and unmap a
  // slab each time.
  if (std::count_if(slabs_.begin(), slabs_.end(), is_empty) > 1) {
    UnmapHugePages(slab->first, slab_bytes_);
    slabs_.erase(slab);
  }
}

}  // namespace attention
