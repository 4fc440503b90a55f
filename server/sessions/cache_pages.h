// The pages of a sequence's caches.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/attention/kv_cache.h"

namespace attention {

/// The pages of the same tokens in all caches of a sequence. Sequences share the pages of all
/// caches alike, so that of the first cache stands for the others.
struct CachePage {
  const void* page = nullptr;
  int64_t size_bytes = 0;
  /// How many caches have the page. Other threads may change it at any time.
  int64_t num_users = 0;
};

/// Returns the page of a token that the caches have.
inline CachePage CachePageOf(std::span<const KvCache> caches, int64_t token) {
  CachePage page{caches.front().PageOf(token), 0, caches.front().NumSharing(token)};
  for (const KvCache& cache : caches) {
    page.size_bytes += static_cast<int64_t>(cache.PageBytesOf(token));
  }
  return page;
}

/// Returns the first token of the page behind that of `token`.
inline int64_t NextPage(const KvCache& cache, int64_t token) {
  const int64_t page_tokens = cache.shape().page_tokens;
  return token + page_tokens - token % page_tokens;
}

/// The pages of a session's sequences, each once.
struct SessionPages {
  /// A page that others have, too: prefixes. It is that of a token in these caches.
  struct Shared {
    std::span<const KvCache> caches;
    int64_t token = 0;
    /// How many sequences of the session have it.
    int64_t num_users = 0;
  };

  /// The size of all pages.
  int64_t size_bytes = 0;
  /// The size of those that nothing else has.
  int64_t own_bytes = 0;
  std::vector<Shared> shared;
};

/// A page of a prefix, or one that parked sessions share with prefixes. Both can be given up.
struct FreeablePage {
  std::string account;
  int64_t size_bytes = 0;
  /// The number of caches that still use the page when all prefixes and the parked sessions counted
  /// so far are gone. 0: the page is then free.
  int64_t num_users = 0;
};

using FreeablePages = std::unordered_map<const void*, FreeablePage>;

/// Adds the memory that each account would have back.
inline void AddFreedBytes(const FreeablePages& pages, std::map<std::string, int64_t>& freed) {
  for (const auto& [_, page] : pages) {
    freed[page.account] += page.num_users <= 0 ? page.size_bytes : 0;
  }
}

}  // namespace attention
