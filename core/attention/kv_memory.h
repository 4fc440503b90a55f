// The memory budget that caches of keys and values share, and the extents of a cache.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "core/kernels/attention/packed_layout.h"
#include "core/runtime/mutex.h"
#include "core/runtime/slab_arena.h"

namespace attention {

/// What a reservation of pages changes. Pages are taken one by one, and pages that are replaced do
/// not count.
struct KvGrowth {
  int64_t bytes = 0;
  /// The size of the page that is taken last; 0: none is taken.
  int64_t last_page_bytes = 0;

  KvGrowth& operator+=(const KvGrowth& later) {
    bytes += later.bytes;
    last_page_bytes = later.last_page_bytes > 0 ? later.last_page_bytes : last_page_bytes;
    return *this;
  }
};

/// A memory budget that caches share. A page that several caches refer to counts once. Only pages
/// count. They lie in slabs, each for pages of one size (SlabArena). A slab stays allocated
/// as long as one of its pages is in use, so pages of many sizes may hold more memory than they
/// count: all slabs together have at most a quarter more than the budget (at least 256 MiB more).
/// For each page size in use one unused slab is kept, and one more for all other sizes together.
/// Thread-safe.
class KvMemory {
 public:
  explicit KvMemory(size_t max_bytes = std::numeric_limits<size_t>::max())
      : max_bytes_(max_bytes) {}

  /// Decides whether a part that holds `own` bytes may take `more` bytes, when `used` of the `max`
  /// bytes of the whole are in use.
  using MayTake = bool (*)(size_t own, size_t more, size_t used, size_t max);
  /// Makes a part of `whole`: its memory comes from `whole` and counts in both. `holder` is the
  /// name of the part in errors.
  KvMemory(std::shared_ptr<KvMemory> whole, MayTake may_take, std::string holder)
      : max_bytes_(whole->max_bytes_),
        whole_(std::move(whole)),
        may_take_(may_take),
        holder_(std::move(holder)) {}

  /// Returns how much memory the slabs of a budget of `max_bytes` may take: those of many page
  /// sizes may be used in part.
  static size_t MostMappedBytes(size_t max_bytes);

  size_t max_bytes() const { return max_bytes_; }
  size_t used_bytes() const { return used_bytes_; }
  /// Returns the bytes of all slabs. REQUIRES: this is no part of another budget.
  size_t mapped_bytes() const {
    MutexLock lock(mutex_);
    return mapped_bytes_;
  }
  /// Returns the unused bytes of the whole budget, of pages or of slabs, whichever are fewer.
  size_t free_bytes() const;

  enum class Room { kEnough, kFull, kShareUsed };
  /// Returns whether there is room, if nobody else takes or gives back memory. `own_freed` bytes of
  /// this part, and `others_freed` of other parts, count as free.
  Room RoomFor(const KvGrowth& growth, int64_t own_freed = 0, int64_t others_freed = 0) const;
  /// Returns what there is instead of the room, for an error: the free bytes, or those of the part
  /// when its share is used.
  std::string Describe(const KvGrowth& growth) const;

 private:
  friend class KvPage;
  /// Takes a slot of `bytes`; its memory is null when the budget has no room. `credit_bytes` of the
  /// used memory do not count, since they will be given back. Throws std::bad_alloc when the system
  /// has no memory.
  SlabArena::Slot Take(size_t bytes, size_t credit_bytes);
  void GiveBack(const SlabArena::Slot& slot, size_t bytes);
  SlabArena::Slot TakeFromArena(size_t bytes);
  bool MakesRoomFor(size_t slab_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t max_bytes_;
  const std::shared_ptr<KvMemory> whole_ = nullptr;
  const MayTake may_take_ = nullptr;
  const std::string holder_ = {};
  std::atomic<size_t> used_bytes_ = 0;
  mutable Mutex mutex_;
  std::map<size_t, SlabArena> arenas_ ABSL_GUARDED_BY(mutex_);  // by the size of their slots
  size_t idle_ ABSL_GUARDED_BY(mutex_) = 0;  // the size of an arena that is kept unused, or 0
  size_t mapped_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of all arenas
};

/// The tokens of a page of a cache, unless its shape says otherwise.
inline constexpr int64_t kDefaultPageTokens = 2048;

struct KvCacheShape {
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t value_head_dim = 0;
  /// The number format. kF32 keeps every bit. kInt8 rounds each row of each head to 8 bits with a
  /// scale of its own; on x86-64, queries and probabilities are rounded to 8 bits too.
  KeyValueStorage storage = KeyValueStorage::kF32;
  /// The tokens of a page, a multiple of kKeyTile. Many short prefixes are shared at the ends of
  /// small pages; large pages are read faster.
  int64_t page_tokens = kDefaultPageTokens;

  bool operator==(const KvCacheShape&) const = default;
};

}  // namespace attention
