#include "core/attention/kv_memory.h"

#include <algorithm>

namespace attention {

SlabArena& KvMemory::ArenaOf(size_t bytes) {
  MutexLock lock(mutex_);
  return arenas_.try_emplace(bytes, bytes).first->second;
}

size_t KvMemory::free_bytes() const {
  const size_t used = whole_ == nullptr ? used_bytes_ : whole_->used_bytes_;
  return used < max_bytes_ ? max_bytes_ - used : 0;
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
    return ArenaOf(bytes).Take();
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
  ArenaOf(bytes).GiveBack(slot);
  used_bytes_ -= bytes;
}

}  // namespace attention
