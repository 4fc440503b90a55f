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

/// Memory that caches share: a page that several caches refer to counts once. What counts are
/// pages; the huge pages that they lie in may hold a few megabytes more. Thread-safe.
class KvMemory {
 public:
  explicit KvMemory(size_t max_bytes = std::numeric_limits<size_t>::max())
      : max_bytes_(max_bytes) {}

  /// Whether a part that has `own` bytes may have `more`, when `used` bytes of the whole's `max`
  /// are.
  using MayTake = bool (*)(size_t own, size_t more, size_t used, size_t max);
  /// A part of `whole`: what it takes is taken from there, and counted in both.
  KvMemory(std::shared_ptr<KvMemory> whole, MayTake may_take)
      : max_bytes_(whole->max_bytes_), whole_(std::move(whole)), may_take_(may_take) {}

  size_t max_bytes() const { return max_bytes_; }
  size_t used_bytes() const { return used_bytes_; }
  /// Of the whole.
  size_t free_bytes() const;

 private:
  friend class KvPage;
  /// Null when there is no room, `credit_bytes` of what is used apart: they will be given back.
  /// Throws std::bad_alloc when the system has none.
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
  /// kF32 keeps every bit. kInt8 rounds each token's row of each head to 8 bits with a scale of its
  /// own; from AVX2 on, queries and probabilities are rounded to 8 bits too.
  KeyValueStorage storage = KeyValueStorage::kF32;

  bool operator==(const KvCacheShape&) const = default;
};

/// What is done to keys before they are kept. Key j stands at position j.
struct KeyPreparation {
  std::optional<RmsNorm> norm = {};
  std::optional<Rotary> rotary = {};
};

class KvPage;

/// What throws std::bad_alloc leaves a cache as it was.
///
/// Pages of kPageTokens tokens, within which each head's keys, and its values, are contiguous: the
/// longer the run, the faster memory is read. The last page grows from 64 tokens, each time by a
/// third or a half. Forks share pages, which are copied when one of them is written to. Movable.
///
/// Threads: one at a time for each cache; caches that share pages may be used at once.
class KvCache {
 public:
  static constexpr int64_t kPageTokens = 2048;
  static_assert(kPageTokens % kKeyTile == 0);  // tiles do not cross pages

  /// INVALID_ARGUMENT for extents that attention does not take.
  static absl::StatusOr<KvCache> Create(const KvCacheShape& shape,
                                        std::shared_ptr<KvMemory> memory = nullptr);
  KvCache(KvCache&&) noexcept;
  KvCache& operator=(KvCache&&) noexcept;
  ~KvCache();

  const KvCacheShape& shape() const { return shape_; }
  /// Tokens.
  int64_t length() const { return length_; }
  /// Of the pages that it refers to, shared or not.
  size_t size_bytes() const;
  /// The same of a cache of `length` tokens.
  static size_t SizeBytes(const KvCacheShape& shape, int64_t length);

  /// Makes room for `tokens` more than there are, so that appending them cannot fail for memory, up
  /// to the next Fork or Truncate. Room that is there already is used. RESOURCE_EXHAUSTED as
  /// Append; INVALID_ARGUMENT for a negative number. After an error the cache is as it was.
  absl::Status Reserve(int64_t tokens);

  /// key [tokens, num_kv_heads, head_dim] and value [tokens, num_kv_heads, value_head_dim], of any
  /// dtype, follow what is there. INVALID_ARGUMENT names the extent that is wrong;
  /// RESOURCE_EXHAUSTED when the memory has no room. After an error the cache is as it was.
  absl::Status Append(const HeadsView& key, const HeadsView& value,
                      const KeyPreparation& preparation = {});

  /// Forgets tokens from `length` on, and gives back the pages that then hold none.
  /// INVALID_ARGUMENT outside [0, length()].
  absl::Status Truncate(int64_t length);

  /// A cache with the same tokens. Costs no page until one of the two is appended to.
  KvCache Fork();

  /// Valid until the next change.
  CachedKeyValues View() const;

 private:
  friend class KvAppend;
  KvCache(const KvCacheShape& shape, std::shared_ptr<KvMemory> memory);
  void SetPage(int64_t index, std::shared_ptr<KvPage> page);
  int64_t num_used_pages() const { return (length_ + kPageTokens - 1) / kPageTokens; }

  KvCacheShape shape_;
  std::shared_ptr<KvMemory> memory_;
  int64_t length_ = 0;
  /// Those of the tokens, and those that are reserved.
  std::vector<std::shared_ptr<KvPage>> pages_;
  /// Pages from this one on are this cache's alone.
  int64_t first_own_page_ = 0;
  std::vector<HeadPage> head_pages_;  // [pages, num_kv_heads]
};

}  // namespace attention
