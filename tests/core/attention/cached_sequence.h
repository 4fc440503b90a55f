// A sequence whose keys and values are in a cache, for the tests of caches.
#pragma once

#include <memory>
#include <utility>

#include "core/attention/kv_cache.h"
#include "gtest/gtest.h"
#include "tests/support/attention_problem.h"
#include "tests/support/matchers.h"

namespace attention {

inline constexpr int64_t kCachedLength = 700;
inline const reference::Extents kCachedExtents{kCachedLength, kCachedLength, 6, 2, 48, 40};

/// A whole sequence, of which parts are appended to a cache and computed, as a decoder does.
class CachedSequence {
 public:
  CachedSequence(AttentionProblem& problem, KeyValueStorage storage,
                 std::shared_ptr<KvMemory> memory = nullptr,
                 int64_t page_tokens = kDefaultPageTokens)
      : problem_(problem),
        cache_(*KvCache::Create({problem.extents.num_kv_heads, problem.extents.head_dim,
                                 problem.extents.value_head_dim, storage, page_tokens},
                                std::move(memory))) {}

  KvCache& cache() { return cache_; }
  const KvCache& cache() const { return cache_; }

  absl::Status Append(int64_t count) {
    const AttentionSequence whole = problem_.Sequence();
    const int64_t first = cache_.length();
    return cache_.Append(SliceTokens(whole.key, first, count),
                         SliceTokens(whole.value, first, count),
                         {.norm = problem_.options.key_norm, .rotary = problem_.options.rotary});
  }

  /// Computes the last `count` rows of what is cached into the problem's output.
  void Attend(int64_t count, int num_threads = 1) {
    AttentionSequence part = problem_.Sequence();
    const int64_t first = cache_.length() - count;
    part.query = SliceTokens(part.query, first, count);
    part.output = SliceTokens(part.output, first, count);
    part.key = part.value = {};
    part.cache = &cache_;
    ThreadPool pool(num_threads);
    Workspace workspace(pool);
    EXPECT_THAT(ScaledDotProductAttention({&part, 1}, workspace), IsOk());
  }

  void Step(int64_t count) {
    EXPECT_THAT(Append(count), IsOk());
    Attend(count);
  }

 private:
  AttentionProblem& problem_;
  KvCache cache_;
};

}  // namespace attention
