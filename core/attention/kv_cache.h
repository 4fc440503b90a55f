// Keys and values of one growing sequence, kept in the form that the products read.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/kernels/attention_tile.h"
#include "core/kernels/packed_head.h"
#include "core/kernels/variants.h"
#include "core/runtime/mutex.h"
#include "core/runtime/slab_arena.h"
#include "core/tensor/tensor.h"

namespace attention {

/// A memory budget that caches share. A page that several caches refer to counts once. Only pages
/// count: they lie in slabs of 16 MiB or one page, a slab stays allocated as long as one of its
/// pages is in use, and one unused slab of each page size is kept. Thread-safe.
class KvMemory {
 public:
  explicit KvMemory(size_t max_bytes = std::numeric_limits<size_t>::max())
      : max_bytes_(max_bytes) {}

  /// Decides whether a part that holds `own` bytes may take `more` bytes, when `used` of the `max`
  /// bytes of the whole are in use.
  using MayTake = bool (*)(size_t own, size_t more, size_t used, size_t max);
  /// Makes a part of `whole`: its memory comes from `whole` and counts in both.
  KvMemory(std::shared_ptr<KvMemory> whole, MayTake may_take)
      : max_bytes_(whole->max_bytes_), whole_(std::move(whole)), may_take_(may_take) {}

  size_t max_bytes() const { return max_bytes_; }
  size_t used_bytes() const { return used_bytes_; }
  /// The unused bytes of the whole budget.
  size_t free_bytes() const;

 private:
  friend class KvPage;
  /// Takes `bytes`; null when the budget has no room. `credit_bytes` of the used memory do not
  /// count, since they will be given back. Throws std::bad_alloc when the system has no memory.
  std::byte* Take(size_t bytes, size_t credit_bytes);
  void GiveBack(std::byte* memory, size_t bytes);
  SlabArena& ArenaOf(size_t bytes);

  const size_t max_bytes_;
  const std::shared_ptr<KvMemory> whole_ = nullptr;
  const MayTake may_take_ = nullptr;
  std::atomic<size_t> used_bytes_ = 0;
  Mutex mutex_;
  std::map<size_t, SlabArena> arenas_ ABSL_GUARDED_BY(mutex_);  // by the size of their slots
};

struct KvCacheShape {
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t value_head_dim = 0;
  /// kF32 keeps every bit. kInt8 rounds each row of each head to 8 bits with a scale of its own;
  /// from AVX2 on, queries and probabilities are rounded to 8 bits too.
  KeyValueStorage storage = KeyValueStorage::kF32;

  bool operator==(const KvCacheShape&) const = default;
};

/// The norm and rotation that are applied to keys before they are stored. Key j stands at position
/// j.
struct KeyPreparation {
  std::optional<RmsNorm> norm = {};
  std::optional<Rotary> rotary = {};
};

class KvPage;

/// Keys and values of one sequence. A call that throws std::bad_alloc leaves the cache unchanged.
///
/// The cache consists of pages of kPageTokens tokens. Within a page the keys of each head are
/// contiguous, and so are its values: memory is read faster in long runs. The last page has room
/// for 64, 128, 192, 256, 384, 512, ... tokens and is replaced by a larger one when it is full.
/// Forks share pages; a shared page is copied before it is written to. Movable.
///
/// Only one thread at a time may use a cache. Caches that share pages may be used at the same time.
class KvCache {
 public:
  static constexpr int64_t kPageTokens = 2048;
  static_assert(kPageTokens % kKeyTile == 0);  // tiles do not cross pages

  /// Makes an empty cache. INVALID_ARGUMENT for extents that attention does not support.
  static absl::StatusOr<KvCache> Create(const KvCacheShape& shape,
                                        std::shared_ptr<KvMemory> memory = nullptr);
  KvCache(KvCache&&) noexcept;
  KvCache& operator=(KvCache&&) noexcept;
  ~KvCache();

  const KvCacheShape& shape() const { return shape_; }
  /// The number of tokens.
  int64_t length() const { return length_; }
  /// The size of the cache's pages, shared pages included.
  size_t size_bytes() const;
  /// The size of the pages of a cache of `length` tokens.
  static size_t SizeBytes(const KvCacheShape& shape, int64_t length);

  /// Makes room for `tokens` more tokens, so that appending them cannot run out of memory before
  /// the next Fork or Truncate. Existing room is used. RESOURCE_EXHAUSTED as for Append;
  /// INVALID_ARGUMENT for a negative number. After an error the cache is unchanged.
  absl::Status Reserve(int64_t tokens);

  /// key [tokens, num_kv_heads, head_dim] and value [tokens, num_kv_heads, value_head_dim], of any
  /// dtype, are appended. INVALID_ARGUMENT names the extent that is wrong; RESOURCE_EXHAUSTED when
  /// the budget has no room. After an error the cache is unchanged.
  absl::Status Append(const HeadsView& key, const HeadsView& value,
                      const KeyPreparation& preparation = {});

  /// Removes the tokens from `length` on, and gives back the pages that hold none of the remaining
  /// tokens. INVALID_ARGUMENT outside [0, length()].
  absl::Status Truncate(int64_t length);

  /// Makes a cache with the same tokens. It needs no page of its own until one of the two is
  /// appended to.
  KvCache Fork();

  /// The packed keys and values; valid until the cache changes.
  CachedKeyValues View() const;

 private:
  friend class KvAppend;
  KvCache(const KvCacheShape& shape, std::shared_ptr<KvMemory> memory);
  void SetPage(int64_t index, std::shared_ptr<KvPage> page);
  int64_t num_used_pages() const { return (length_ + kPageTokens - 1) / kPageTokens; }

  KvCacheShape shape_;
  std::shared_ptr<KvMemory> memory_;
  int64_t length_ = 0;
  /// The pages of the tokens, then the reserved pages.
  std::vector<std::shared_ptr<KvPage>> pages_;
  /// No other cache shares the pages from this index on.
  int64_t first_own_page_ = 0;
  std::vector<HeadPage> head_pages_;  // [pages, num_kv_heads]
};

}  // namespace attention
