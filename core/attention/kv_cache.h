// Keys and values of one growing sequence, kept in the form that the products read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/attention/kv_memory.h"
#include "core/kernels/attention/options.h"
#include "core/kernels/attention/packed_layout.h"
#include "core/runtime/round_up.h"
#include "core/tensor/tensor.h"

namespace attention {

/// The norm and rotation that are applied to keys before they are stored. Key j stands at position
/// j.
struct KeyPreparation {
  std::optional<RmsNorm> norm = {};
  std::optional<Rotary> rotary = {};
};

class KvPage;

/// Keys and values of one sequence. A call that throws std::bad_alloc leaves the cache unchanged.
///
/// The cache consists of pages of KvCacheShape::page_tokens tokens. Within a page the keys of each
/// head are contiguous, and so are its values, since long contiguous parts are read faster. The
/// last page has room for 64, 128, 192, 256, 384, 512, ... tokens and is replaced by a larger one
/// when it is full. Forks share pages; a shared page is copied before it is written to. Movable.
///
/// Only one thread at a time may use a cache. Caches that share pages may be used at the same time.
class KvCache {
 public:
  /// Makes an empty cache. INVALID_ARGUMENT for extents that attention does not support.
  static absl::StatusOr<KvCache> Create(const KvCacheShape& shape,
                                        std::shared_ptr<KvMemory> memory = nullptr);
  KvCache(KvCache&&) noexcept;
  KvCache& operator=(KvCache&&) noexcept;
  ~KvCache();

  const KvCacheShape& shape() const { return shape_; }
  /// Returns the number of tokens.
  int64_t length() const { return length_; }
  /// Returns the size of the cache's pages, shared pages included.
  size_t size_bytes() const;
  /// Returns the size of the cache without its pages. A fork's tables have as many entries as the
  /// original's.
  size_t table_bytes() const {
    return sizeof(*this) + pages_.size() * sizeof(pages_[0]) +
           head_pages_.size() * sizeof(HeadPage);
  }
  /// Returns the size of the pages of a cache of `length` tokens.
  static size_t SizeBytes(const KvCacheShape& shape, int64_t length);

  /// Makes room for `tokens` more tokens, so that appending them cannot run out of memory before
  /// the next Fork or Truncate, or the next time that it shares pages with another cache. Existing
  /// room is used. A shared last page is copied later, when tokens are appended. A last page of its
  /// own that is too small is replaced by a larger one now; the memory of the old one counts as
  /// free (BytesToMove). RESOURCE_EXHAUSTED as for Append; INVALID_ARGUMENT for a negative number,
  /// or one that takes the cache beyond kMaxPosition tokens. After an error the cache is unchanged.
  absl::Status Reserve(int64_t tokens);
  /// Returns the memory that Reserve would take once `leaving` of the caches that share the last
  /// page are gone. REQUIRES: Reserve accepts `tokens`.
  KvGrowth GrowthFor(int64_t tokens, int64_t leaving = 0) const;
  const KvMemory& memory() const { return *memory_; }
  /// Returns about how many bytes Reserve would copy.
  size_t BytesToMove(int64_t tokens) const;

  /// Appends key [tokens, num_kv_heads, head_dim] and value [tokens, num_kv_heads, value_head_dim],
  /// of any dtype. INVALID_ARGUMENT names the extent that is wrong; RESOURCE_EXHAUSTED when the
  /// budget has no room. After an error the cache is unchanged.
  absl::Status Append(const HeadsView& key, const HeadsView& value,
                      const KeyPreparation& preparation = {});

  /// Removes the tokens from `length` on, and gives back the pages that hold none of the remaining
  /// tokens. INVALID_ARGUMENT outside [0, length()].
  absl::Status Truncate(int64_t length);

  /// Makes a cache with the same tokens. It needs no page of its own until one of the two is
  /// appended to.
  KvCache Fork();
  /// Makes a fork of the first `tokens` tokens, in time and memory of their pages. Several threads
  /// may do so at once. REQUIRES: this cache has them, and is never appended to again.
  KvCache ForkFirst(int64_t tokens) const;

  /// Gives back the pages that lie within the first `tokens` tokens, and shares those of `other`
  /// instead. REQUIRES: both have one shape, at least `tokens` tokens, and the same first tokens.
  void SharePages(KvCache& other, int64_t tokens);
  /// Shares the page of `other` that has this cache's last token. Returns this cache's own page,
  /// which is freed when the caller releases it. REQUIRES: SharePages could share all tokens, and
  /// there is at least one.
  std::shared_ptr<const void> ShareLastPage(KvCache& other);

  /// Visits the pages of the tokens. Caches that share a page have it at the same address.
  void VisitPages(absl::FunctionRef<void(const void* page, size_t size_bytes)> visit) const;
  /// Returns the page of a token.
  const void* PageOf(int64_t token) const { return pages_[token / page_tokens()].get(); }
  /// Returns the size of the page of a token.
  size_t PageBytesOf(int64_t token) const;
  /// Returns how many caches have the page of a token. Other threads may change it at any time.
  int64_t NumSharing(int64_t token) const { return pages_[token / page_tokens()].use_count(); }

  /// Returns the packed keys and values; valid until the cache changes.
  CachedKeyValues View() const;

 private:
  friend class KvAppend;
  KvCache(const KvCacheShape& shape, std::shared_ptr<KvMemory> memory);
  void SetPage(int64_t index, std::shared_ptr<KvPage> page);
  void SharePage(KvCache& other, int64_t index);
  int64_t page_tokens() const { return shape_.page_tokens; }
  /// Returns page `index`, or the reserved page that replaces it, if this cache may write to it,
  /// because no other cache shares it (any more), where `leaving` of them count as gone; otherwise,
  /// and beyond the last page, null. No other cache can begin to share it meanwhile, since that
  /// needs a call of this cache.
  const KvPage* OwnPage(int64_t index, int64_t leaving = 0) const;
  /// Returns the capacity of the page that Reserve must make, where `own` is the OwnPage; 0: the
  /// page stays as it is.
  int64_t CapacityToMake(int64_t index, int64_t end, const KvPage* own) const;
  /// Makes the pages from next_page() on for `tokens` more; null: the page stays as it is. Returns
  /// the errors of Reserve.
  absl::StatusOr<std::vector<std::shared_ptr<KvPage>>> MakePages(int64_t tokens);
  /// Returns the length of the cache with `tokens` more tokens; 0 when there are no more.
  int64_t EndWith(int64_t tokens) const { return tokens == 0 ? 0 : length_ + tokens; }
  /// Returns the page of the next token, which has earlier tokens unless this is its first.
  int64_t next_page() const { return length_ / page_tokens(); }
  int64_t num_used_pages() const { return RoundUp(length_, page_tokens()) / page_tokens(); }

  KvCacheShape shape_;
  std::shared_ptr<KvMemory> memory_;
  int64_t length_ = 0;
  /// The pages of the tokens, then the reserved pages.
  std::vector<std::shared_ptr<KvPage>> pages_;
  /// No other cache shares the pages from this index on. The page before may be its own again.
  int64_t first_own_page_ = 0;
  /// The reserved page that replaces the shared page of the last tokens when tokens are appended;
  /// null: none.
  std::shared_ptr<KvPage> tail_;
  std::vector<HeadPage> head_pages_;  // [pages, num_kv_heads]
};

}  // namespace attention
