// What the prefix cache finds, what it stores once, and what that costs.
#include "server/sessions/prefix_cache.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/sessions/prefix_cache_fixture.h"
#include "tests/server/token_ids.h"
#include "tests/support/matchers.h"
#include "tests/support/slowdown.h"

namespace attention {
namespace {

TEST_F(PrefixCacheTest, FindsTheLongestCommonPrefixWhereverItEnds) {
  for (const int64_t common : {1, 2, 63, 64, 65, 511, 512, 513, 1024, 1100}) {
    PrefixCache cache(kEnoughBytes);
    const Ids prefix = Count(0, common);
    EXPECT_EQ(Ask(cache, Owner(), Join(prefix, Count(5000, 40))), 0);
    EXPECT_EQ(Ask(cache, Owner(), Join(prefix, Count(6000, 700))), common) << "divides the first";
    EXPECT_EQ(Ask(cache, Owner(), Join(prefix, Count(7000, 3))), common) << "ends at a node";
    EXPECT_EQ(Ask(cache, Owner(), Join(prefix, Join(Count(6000, 300), {1}))), common + 300);
    EXPECT_EQ(Ask(cache, Owner(), Join(prefix, Count(5000, 40))), common + 39) << "but one";
    EXPECT_EQ(cache.statistics().prefixes, 6);
  }
}

TEST_F(PrefixCacheTest, CommonTokensAreStoredOnce) {
  PrefixCache cache(kEnoughBytes);
  const Ids prefix = Count(0, 1024);
  Ask(cache, Owner(), Join(prefix, {5000}));
  const int64_t first = cache.statistics().bytes;
  Ask(cache, Owner(), Join(prefix, {6000}));
  const int64_t second = cache.statistics().bytes;
  const auto page = static_cast<int64_t>(KvCache::SizeBytes(NewCaches()[0].shape(), 1));
  EXPECT_EQ(second - first,
            kPrefixLayers * page + kPrefixWidth * 4 + 4 + NodeBytes(1024) + NodeBytes(1025))
      << "a page a layer, a row, an id, and two nodes";
  Ask(cache, Owner(), Join(prefix, {5000}));
  Ask(cache, Owner(), prefix);
  EXPECT_EQ(cache.statistics().bytes, second) << "nothing was new";
  const int64_t hidden_and_ids = (1024 + 2) * (kPrefixWidth + 1) * 4;
  EXPECT_EQ(second, static_cast<int64_t>(memory_->used_bytes()) + hidden_and_ids + NodeBytes(1024) +
                        2 * NodeBytes(1025));
}

TEST_F(PrefixCacheTest, TwoThatComputeTheSameAtOnceLeaveItOnce) {
  PrefixCache cache(kEnoughBytes);
  const Ids ids = Count(0, 1300);
  Ask(cache, Owner(), ids);
  const PrefixStatistics before = cache.statistics();
  std::vector<KvCache> caches = NewCaches();  // of another request, which found nothing
  const Ids longer = Join(ids, {1});
  const std::vector<float> rows(longer.size() * kPrefixWidth);
  Append(rows, caches);
  cache.Add(Owner(), {.ids = longer, .caches = caches, .known = 0, .hidden = rows});
  EXPECT_EQ(cache.statistics().prefixes, before.prefixes + 1);
  EXPECT_EQ(cache.statistics().bytes - before.bytes, kPrefixWidth * 4 + 4 + NodeBytes(1301))
      << "a row, an id and a node";
}

TEST_F(PrefixCacheTest, CachesOfOtherLengthsAreNotAdded) {
  PrefixCache cache(kEnoughBytes);
  const Ids ids = Count(0, 1300);
  const std::vector<float> rows(ids.size() * kPrefixWidth);
  for (const int64_t length : {0, 1299}) {
    std::vector<KvCache> caches = NewCaches();
    Append(rows, caches);
    EXPECT_THAT(caches[1].Truncate(length), IsOk());
    cache.Add(Owner(), {.ids = ids, .caches = caches, .known = 0, .hidden = rows});
    EXPECT_EQ(cache.statistics().prefixes, 0) << length;
  }
}

TEST_F(PrefixCacheTest, OwnersShareNothing) {
  PrefixCache cache(kEnoughBytes);
  const Ids ids = Count(0, 100);
  Ask(cache, Owner("a", "t"), ids);
  EXPECT_EQ(Ask(cache, Owner("b", "t"), ids), 0);
  EXPECT_EQ(Ask(cache, Owner("a", "u"), ids), 0);
  PrefixOwner other_storage = Owner("a", "t");
  other_storage.storage = KeyValueStorage::kBf16;
  EXPECT_EQ(cache.Find(other_storage, ids, 99).length, 0);
  PrefixOwner other_model = Owner("a", "t");
  other_model.model = MakePrefixModel();
  EXPECT_EQ(cache.Find(other_model, ids, 99).length, 0);
  EXPECT_EQ(Ask(cache, Owner("a", "t"), ids), 99);
}

/// A prompt of many tokens, then prompts that begin like it, each with one more token of it.
TEST_F(PrefixCacheTest, DividingALongPromptCopiesNoHiddenStates) {
  PrefixCache cache(kEnoughBytes);
  constexpr int64_t kLong = 4000;
  Ask(cache, Owner(), Count(0, kLong));
  const Prefix whole = cache.Find(Owner(), Count(0, kLong), kLong);
  int64_t bytes = cache.statistics().bytes;
  const auto page = static_cast<int64_t>(KvCache::SizeBytes(NewCaches()[0].shape(), 1));
  for (int64_t common = 1; common < 20; ++common) {
    Ask(cache, Owner(), Join(Count(0, common), {9999}));
    EXPECT_EQ(cache.statistics().bytes - bytes, kPrefixLayers * page + kPrefixWidth * 4 + 4 +
                                                    NodeBytes(common) + NodeBytes(common + 1))
        << common;
    bytes = cache.statistics().bytes;
  }
  const Prefix divided = cache.Find(Owner(), Count(0, kLong), kLong);
  ExpectTokens(divided, Count(0, kLong));
  for (const HiddenRows& part : divided.hidden) {
    const auto is_same = [&](const HiddenRows& other) { return other.states == part.states; };
    EXPECT_TRUE(std::any_of(whole.hidden.begin(), whole.hidden.end(), is_same));
  }
}

/// Prompts that leave a long one at ever later tokens: each divides a node of it.
TEST_F(PrefixCacheTest, TheTablesOfManyNodesStayWithinTheBudget) {
  constexpr int64_t kLong = 6000;
  PrefixCache probe(kEnoughBytes);
  Ask(probe, Owner(), Count(0, kLong));
  const int64_t alone = probe.statistics().bytes;
  while (Evict(probe)) {
  }
  const KvCacheShape shape = NewCaches()[0].shape();
  const auto full_page = static_cast<int64_t>(KvCache::SizeBytes(shape, shape.page_tokens));
  PrefixCache cache(alone + 4 * kPrefixLayers * full_page);  // room for some that leave it
  Ask(cache, Owner(), Count(0, kLong));
  for (int64_t common = 1; common < kLong; common += 2 * kSlowdown) {
    Ask(cache, Owner(), Join(Count(0, common), {9999}));
    const auto pages = static_cast<int64_t>(memory_->used_bytes());
    ASSERT_LE(pages + cache.statistics().prefixes * NodeBytes(1), cache.max_bytes()) << common;
  }
}

/// Each turn of a conversation follows the whole of the one before.
TEST_F(PrefixCacheTest, AGrowingConversationTakesTheMemoryOfItsLastTurn) {
  const auto converse = [&](PrefixCache& cache, int64_t tokens) {
    for (int64_t length = 30; length <= tokens; length += 30) {
      EXPECT_EQ(Ask(cache, Owner(), Count(0, length)), std::max<int64_t>(0, length - 30)) << length;
    }
  };
  PrefixCache probe(kEnoughBytes);
  Ask(probe, Owner(), Count(0, 1200));
  const int64_t alone = probe.statistics().bytes;
  while (Evict(probe)) {
  }
  int64_t earlier_nodes = 0;
  for (int64_t length = 30; length < 1200; length += 30) {
    earlier_nodes += NodeBytes(length);
  }
  PrefixCache cache(alone + earlier_nodes);
  converse(cache, 1200);
  EXPECT_EQ(cache.statistics().bytes, alone + earlier_nodes);
  EXPECT_EQ(cache.statistics().evictions, 0);
  EXPECT_EQ(static_cast<int64_t>(memory_->used_bytes()),
            alone - 1200 * (kPrefixWidth + 1) * 4 - NodeBytes(1200));
  while (Evict(cache)) {  // the newest first, which has no page of its own
  }
  EXPECT_EQ(cache.statistics().bytes, 0);
  EXPECT_EQ(memory_->used_bytes(), 0);
}

TEST_F(PrefixCacheTest, ADeepTreeIsDestroyedWithoutRecursion) {
  constexpr int64_t kDepth = 200'000;
  const auto memory = std::make_shared<KvMemory>();
  std::vector<KvCache> caches;
  caches.push_back(*KvCache::Create({1, 16, 16, KeyValueStorage::kInt8, 512}, memory));
  const std::vector<float> row(16);
  const void* data = row.data();
  const HeadsView one = DenseHeads(data, Dtype::kF32, 1, 1, 16);
  ASSERT_THAT(caches[0].Append(one, one), IsOk());
  PrefixTree tree(16);
  PrefixTree::Removed removed;
  const Ids ids = {1};
  tree.Add(tree.Find(ids), {.ids = ids, .caches = caches, .hidden = row}, MakeChunks(row, 16),
           removed);
  // The nodes of the chain are made by hand: to add them takes the square of their number.
  PrefixTree::Node* node = tree.Find(ids).node;
  for (int64_t i = 0; i < kDepth; ++i) {
    auto& child = node->children[1];
    child = std::make_unique<PrefixTree::Node>();
    child->parent = node;
    node = child.get();
  }
}

TEST_F(PrefixCacheTest, CountsUsesAndEvictions) {
  PrefixCache cache(kEnoughBytes);
  Ask(cache, Owner(), Count(0, 100));
  Ask(cache, Owner(), Count(0, 100));
  Ask(cache, Owner(), Join(Count(0, 50), {1}));
  Evict(cache);
  const PrefixStatistics counts = cache.statistics();
  EXPECT_EQ(counts.misses, 1);
  EXPECT_EQ(counts.hits, 2);
  EXPECT_EQ(counts.cached_tokens, 99 + 50);
  EXPECT_EQ(counts.cached_bytes, 990 + 500);
  EXPECT_EQ(counts.evictions, 1);
  EXPECT_EQ(counts.prefixes, 2);
}

TEST_F(PrefixCacheTest, WithoutABudgetItStaysEmpty) {
  PrefixCache cache(0);
  EXPECT_FALSE(cache.is_on());
  EXPECT_EQ(Ask(cache, Owner(), Count(0, 100)), 0);
  EXPECT_EQ(Ask(cache, Owner(), Count(0, 100)), 0);
  EXPECT_EQ(cache.statistics().bytes, 0);
  EXPECT_FALSE(Evict(cache));
}

}  // namespace
}  // namespace attention
