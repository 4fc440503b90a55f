// A budget of keys and values whose memory is taken by slabs of pages of many sizes.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/attention/kv_cache.h"
#include "core/runtime/slab_arena.h"
#include "tests/support/matchers.h"

namespace attention {

/// Takes pages of one size after the other until a slab of 16 MiB is mapped, of which one page is
/// kept, until there is no memory for another size. Returns the pages, which are a small part of
/// the budget.
inline std::vector<KvCache> FillWithSlabs(const std::shared_ptr<KvMemory>& memory,
                                          const KvMemory& whole) {
  std::vector<KvCache> kept;
  for (int64_t num_heads = 8; num_heads < 120; ++num_heads) {
    std::vector<KvCache> taken;
    for (size_t before = whole.mapped_bytes();
         whole.mapped_bytes() < before + SlabArena::kSlabBytes;) {
      before = whole.mapped_bytes();
      taken.push_back(*KvCache::Create(
          {.num_kv_heads = num_heads, .head_dim = 16, .value_head_dim = 16, .page_tokens = 512},
          memory));
      if (!taken.back().Reserve(512).ok()) {
        return kept;
      }
    }
    kept.push_back(std::move(taken.back()));
  }
  ADD_FAILURE() << "there is memory for slabs of " << kept.size() << " sizes";
  return kept;
}

}  // namespace attention
