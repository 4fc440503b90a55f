#include "core/attention/kv_memory.h"

#include <algorithm>
#include <limits>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace attention {

size_t KvMemory::MostMappedBytes(size_t max_bytes) {
  const size_t more = std::max(max_bytes / 4, size_t{256} << 20);
  return max_bytes + std::min(more, std::numeric_limits<size_t>::max() - max_bytes);
}

/// Returns whether another slab may be mapped, and returns unused ones to the system for it.
bool KvMemory::MakesRoomFor(size_t slab_bytes) {
  const size_t most = MostMappedBytes(max_bytes_);
  if (mapped_bytes_ + slab_bytes <= most) {
    return true;
  }
  for (auto& [size, arena] : arenas_) {
    mapped_bytes_ -= arena.mapped_bytes();
    arena.ReleaseUnused();
    mapped_bytes_ += arena.mapped_bytes();
  }
  return mapped_bytes_ + slab_bytes <= most;
}

/// Takes a slot; its memory is null when that would need one slab too many. Throws std::bad_alloc.
SlabArena::Slot KvMemory::TakeFromArena(size_t bytes) {
  MutexLock lock(mutex_);
  const auto found = arenas_.try_emplace(bytes, bytes).first;
  SlabArena& arena = found->second;
  const auto forget = absl::MakeCleanup([&] {
    if (arena.mapped_bytes() == 0 && idle_ != bytes) {
      arenas_.erase(found);
    }
  });
  if (!arena.has_room() && !MakesRoomFor(arena.next_slab_bytes())) {
    return {};
  }
  mapped_bytes_ -= arena.mapped_bytes();
  const auto count = absl::MakeCleanup([&] { mapped_bytes_ += arena.mapped_bytes(); });
  idle_ = idle_ == bytes ? 0 : idle_;
  return arena.Take();
}

size_t KvMemory::free_bytes() const {
  if (whole_ != nullptr) {
    return whole_->free_bytes();
  }
  MutexLock lock(mutex_);
  const size_t used = used_bytes_;
  const size_t most = MostMappedBytes(max_bytes_);
  return std::min(max_bytes_ - std::min(max_bytes_, used), most - std::min(most, mapped_bytes_));
}

KvMemory::Room KvMemory::RoomFor(const KvGrowth& growth, int64_t own_freed,
                                 int64_t others_freed) const {
  if (growth.last_page_bytes == 0) {
    return Room::kEnough;
  }
  const KvMemory& whole = whole_ == nullptr ? *this : *whole_;
  const auto before_last = [&](size_t used, int64_t freed) {
    const int64_t bytes =
        static_cast<int64_t>(used) - freed + growth.bytes - growth.last_page_bytes;
    return static_cast<size_t>(std::max<int64_t>(0, bytes));
  };
  const auto last = static_cast<size_t>(growth.last_page_bytes);
  const size_t used = before_last(whole.used_bytes_, own_freed + others_freed);
  if (used + last > max_bytes_) {
    return Room::kFull;
  }
  return whole_ == nullptr || may_take_(before_last(used_bytes_, own_freed), last, used, max_bytes_)
             ? Room::kEnough
             : Room::kShareUsed;
}

std::string KvMemory::Describe(const KvGrowth& growth) const {
  if (RoomFor(growth) == Room::kShareUsed) {
    return absl::StrCat(holder_, " has used its share: ", used_bytes(), " of the ",
                        whole_->used_bytes(), " bytes in use of ", max_bytes_, ", ", growth.bytes,
                        " more would exceed it");
  }
  if (RoomFor(growth) == Room::kEnough) {
    return absl::StrCat(
        (whole_ == nullptr ? *this : *whole_).used_bytes(), " of ", max_bytes_,
        " bytes in use, in pages of so many sizes that their slabs take all memory");
  }
  return absl::StrCat(free_bytes(), " bytes free of ", max_bytes_);
}

SlabArena::Slot KvMemory::Take(size_t bytes, size_t credit_bytes) {
  if (whole_ != nullptr) {
    const size_t own = used_bytes_;
    const size_t credit = std::min(credit_bytes, own);
    const SlabArena::Slot slot =
        may_take_(own - credit, bytes, whole_->used_bytes_ - credit, max_bytes_)
            ? whole_->Take(bytes, credit_bytes)
            : SlabArena::Slot();
    used_bytes_ += slot.memory == nullptr ? 0 : bytes;
    return slot;
  }
  size_t used = used_bytes_;
  do {
    if (used - credit_bytes + bytes > max_bytes_) {
      return {};
    }
  } while (!used_bytes_.compare_exchange_weak(used, used + bytes));
  try {
    const SlabArena::Slot slot = TakeFromArena(bytes);
    used_bytes_ -= slot.memory == nullptr ? bytes : 0;
    return slot;
  } catch (...) {
    used_bytes_ -= bytes;
    throw;
  }
}

void KvMemory::GiveBack(const SlabArena::Slot& slot, size_t bytes) {
  if (whole_ != nullptr) {
    used_bytes_ -= bytes;
    whole_->GiveBack(slot, bytes);
    return;
  }
  MutexLock lock(mutex_);
  const auto arena = arenas_.find(bytes);
  mapped_bytes_ -= arena->second.mapped_bytes();
  arena->second.GiveBack(slot);
  mapped_bytes_ += arena->second.mapped_bytes();
  used_bytes_ -= bytes;
  if (!arena->second.is_unused()) {
    return;
  }
  // Callers choose the sizes, so only one arena that nobody uses is kept: a small one.
  const size_t forgotten = arena->second.mapped_bytes() > SlabArena::kSlabBytes ? bytes : idle_;
  idle_ = forgotten == bytes ? idle_ : bytes;
  if (forgotten != 0) {
    const auto old = arenas_.find(forgotten);
    mapped_bytes_ -= old->second.mapped_bytes();
    arenas_.erase(old);
  }
}

}  // namespace attention
