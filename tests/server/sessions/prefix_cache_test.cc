// The prefix cache: what it finds, what it costs, and whose prefixes go.
#include "server/sessions/prefix_cache.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/tensor/seeded.h"
#include "gmock/gmock.h"
#include "tests/server/token_ids.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

constexpr int64_t kWidth = 16;
constexpr int64_t kLayers = 2;
constexpr int64_t kEnough = int64_t{1} << 40;

/// Ids first, first + 1, ..
Ids Count(int32_t first, int64_t count) {
  Ids ids(count);
  for (int64_t i = 0; i < count; ++i) {
    ids[i] = first + static_cast<int32_t>(i);
  }
  return ids;
}

std::shared_ptr<const Model> MakeModel() {
  auto model = Model::CreateSeeded(
      {.name = "m", .d_model = kWidth, .num_heads = 1, .vocab_size = 2, .max_positions = 1});
  EXPECT_THAT(model.status(), IsOk());
  return *std::move(model);
}

class PrefixCacheTest : public ::testing::Test {
 protected:
  PrefixOwner Owner(const std::string& account = "a", const std::string& tenant = "") const {
    return {.model = model_, .account = account, .tenant = tenant};
  }

  std::vector<KvCache> NewCaches() const {
    std::vector<KvCache> caches;
    for (int64_t i = 0; i < kLayers; ++i) {
      caches.push_back(*KvCache::Create({.num_kv_heads = 1,
                                         .head_dim = kWidth,
                                         .value_head_dim = kWidth,
                                         .page_tokens = PrefixCache::kPageTokens},
                                        memory_));
    }
    return caches;
  }

  /// Appends rows as keys and values to each layer.
  static void Append(const std::vector<float>& rows, std::vector<KvCache>& caches) {
    const void* data = rows.data();
    const HeadsView view = DenseHeads(data, Dtype::kF32, std::ssize(rows) / kWidth, 1, kWidth);
    for (KvCache& layer : caches) {
      EXPECT_THAT(layer.Append(view, view), IsOk());
    }
  }

  /// Does what a request does: takes what there is, computes the rest and adds it. The keys, values
  /// and hidden states of a token are its id. Returns how many tokens it took.
  int64_t Ask(PrefixCache& cache, const PrefixOwner& owner, const Ids& ids) const {
    Prefix prefix = cache.Find(owner, ids, std::ssize(ids) - 1);
    cache.CountUse(prefix.length, 10 * prefix.length);
    ExpectTokens(prefix, ids);
    std::vector<KvCache> caches = prefix.length > 0 ? std::move(prefix.caches) : NewCaches();
    std::vector<float> rows;
    for (auto id = ids.begin() + prefix.length; id != ids.end(); ++id) {
      rows.insert(rows.end(), kWidth, static_cast<float>(*id));
    }
    Append(rows, caches);
    cache.Add(owner, {.ids = ids, .caches = caches, .known = prefix.length, .hidden = rows});
    return prefix.length;
  }

  /// Expects that keys, values and hidden states are those of the ids.
  static void ExpectTokens(const Prefix& prefix, const Ids& ids) {
    std::vector<float> hidden;
    for (const HiddenRows& part : prefix.hidden) {
      const auto first = part.states->begin() + part.first * kWidth;
      hidden.insert(hidden.end(), first, first + part.rows * kWidth);
    }
    ASSERT_EQ(std::ssize(hidden), prefix.length * kWidth);
    for (int64_t i = 0; i < prefix.length; ++i) {
      ASSERT_EQ(hidden[i * kWidth], static_cast<float>(ids[i])) << i;
    }
    for (const KvCache& cache : prefix.caches) {
      ASSERT_EQ(cache.length(), prefix.length);
      const CachedKeyValues view = cache.View();
      for (int64_t i = 0; i < prefix.length; ++i) {
        const HeadPage& page = view.pages[i / PrefixCache::kPageTokens];
        const auto* keys = reinterpret_cast<const float*>(page.keys);
        const int64_t in_page = i % PrefixCache::kPageTokens;
        ASSERT_EQ(keys[in_page / kKeyBlock * kKeyBlock * kWidth + in_page % kKeyBlock],
                  static_cast<float>(ids[i]))
            << i;
      }
    }
  }

  /// All memory is the account's that evicts.
  static bool Evict(PrefixCache& cache, const std::string& account = "a") {
    return cache.EvictFor(account, [](const std::string&) { return 0; });
  }

  std::shared_ptr<const Model> model_ = MakeModel();
  std::shared_ptr<KvMemory> memory_ = std::make_shared<KvMemory>();
};

TEST_F(PrefixCacheTest, FindsTheLongestCommonPrefixWhereverItEnds) {
  for (const int64_t common : {1, 2, 63, 64, 65, 511, 512, 513, 1024, 1100}) {
    PrefixCache cache(kEnough);
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
  PrefixCache cache(kEnough);
  const Ids prefix = Count(0, 1024);
  Ask(cache, Owner(), Join(prefix, {5000}));
  const int64_t first = cache.statistics().bytes;
  Ask(cache, Owner(), Join(prefix, {6000}));
  const int64_t second = cache.statistics().bytes;
  const auto page = static_cast<int64_t>(KvCache::SizeBytes(NewCaches()[0].shape(), 1));
  EXPECT_EQ(second - first, kLayers * page + kWidth * 4 + 4) << "a page a layer, a row, an id";
  Ask(cache, Owner(), Join(prefix, {5000}));
  Ask(cache, Owner(), prefix);
  EXPECT_EQ(cache.statistics().bytes, second) << "nothing was new";
  size_t hidden_and_ids = (1024 + 2) * (kWidth + 1) * 4;
  EXPECT_EQ(second, static_cast<int64_t>(memory_->used_bytes() + hidden_and_ids));
}

TEST_F(PrefixCacheTest, TwoThatComputeTheSameAtOnceLeaveItOnce) {
  PrefixCache cache(kEnough);
  const Ids ids = Count(0, 1300);
  Ask(cache, Owner(), ids);
  const PrefixStatistics before = cache.statistics();
  std::vector<KvCache> caches = NewCaches();  // of another request, which found nothing
  const Ids longer = Join(ids, {1});
  const std::vector<float> rows(longer.size() * kWidth);
  Append(rows, caches);
  cache.Add(Owner(), {.ids = longer, .caches = caches, .known = 0, .hidden = rows});
  EXPECT_EQ(cache.statistics().prefixes, before.prefixes + 1);
  EXPECT_EQ(cache.statistics().bytes - before.bytes, kWidth * 4 + 4) << "a row and an id";
}

TEST_F(PrefixCacheTest, OwnersShareNothing) {
  PrefixCache cache(kEnough);
  const Ids ids = Count(0, 100);
  Ask(cache, Owner("a", "t"), ids);
  EXPECT_EQ(Ask(cache, Owner("b", "t"), ids), 0);
  EXPECT_EQ(Ask(cache, Owner("a", "u"), ids), 0);
  PrefixOwner other_storage = Owner("a", "t");
  other_storage.storage = KeyValueStorage::kBf16;
  EXPECT_EQ(cache.Find(other_storage, ids, 99).length, 0);
  PrefixOwner other_model = Owner("a", "t");
  other_model.model = MakeModel();
  EXPECT_EQ(cache.Find(other_model, ids, 99).length, 0);
  EXPECT_EQ(Ask(cache, Owner("a", "t"), ids), 99);
}

TEST_F(PrefixCacheTest, WhatIsTakenOutlivesItsEviction) {
  const Ids ids = Count(0, 600);
  PrefixCache probe(kEnough);
  Ask(probe, Owner(), ids);
  PrefixCache cache(probe.statistics().bytes);  // for one
  Ask(cache, Owner(), ids);
  Prefix taken = cache.Find(Owner(), ids, 599);
  Ask(cache, Owner(), Count(1, 600));
  ASSERT_EQ(cache.Find(Owner(), ids, 599).length, 0);
  ASSERT_EQ(taken.length, 599);
  ExpectTokens(taken, ids);
  const std::vector<float> row(kWidth, 599.0f);
  Append(row, taken.caches);
  cache.Add(Owner(), {.ids = ids, .caches = taken.caches, .known = 599, .hidden = row});
  EXPECT_EQ(cache.Find(Owner(), ids, 600).length, 0) << "what was before it is not known any more";
}

TEST_F(PrefixCacheTest, WhatSomebodyUsesIsNotEvictedForRoom) {
  PrefixCache cache(kEnough);
  const Ids prefix = Count(0, 1000);  // ends within a page
  Ask(cache, Owner(), Join(prefix, {5000, 0}));
  Ask(cache, Owner(), Join(prefix, {6000, 0}));
  {
    const PrefixHold waits = cache.Hold(Owner(), Join(prefix, {1}), 1000);
    ASSERT_EQ(waits.length(), 1000);
    const size_t before = memory_->used_bytes();
    EXPECT_TRUE(Evict(cache));
    EXPECT_TRUE(Evict(cache)) << "what follows the common tokens";
    EXPECT_LT(memory_->used_bytes(), before);
    EXPECT_FALSE(Evict(cache)) << "but not the common tokens";
    EXPECT_EQ(cache.Find(Owner(), prefix, 1000).length, 1000);
  }
  const Prefix runs = cache.Find(Owner(), prefix, 1000);
  EXPECT_FALSE(Evict(cache)) << "its pages would stay";
  EXPECT_EQ(cache.statistics().evictions, 2);
}

TEST_F(PrefixCacheTest, WhatIsHeldStaysWhenTheBudgetIsFull) {
  PrefixCache probe(kEnough);
  Ask(probe, Owner(), Count(0, 600));
  PrefixCache cache(probe.statistics().bytes);  // for one
  Ask(cache, Owner(), Count(0, 600));
  const PrefixHold waits = cache.Hold(Owner(), Count(0, 600), 599);
  Ask(cache, Owner(), Count(1, 600));
  EXPECT_LE(cache.statistics().bytes, cache.max_bytes());
  EXPECT_EQ(cache.Take(waits).length, 599);
  EXPECT_EQ(cache.Find(Owner(), Count(1, 600), 599).length, 0);
}

/// A prompt of many tokens, then prompts that begin like it, each with one more token of it.
TEST_F(PrefixCacheTest, DividingALongPromptCopiesNoHiddenStates) {
  PrefixCache cache(kEnough);
  constexpr int64_t kLong = 4000;
  Ask(cache, Owner(), Count(0, kLong));
  const Prefix whole = cache.Find(Owner(), Count(0, kLong), kLong);
  int64_t bytes = cache.statistics().bytes;
  const auto page = static_cast<int64_t>(KvCache::SizeBytes(NewCaches()[0].shape(), 1));
  for (int64_t common = 1; common < 20; ++common) {
    Ask(cache, Owner(), Join(Count(0, common), {9999}));
    EXPECT_EQ(cache.statistics().bytes - bytes, kLayers * page + kWidth * 4 + 4) << common;
    bytes = cache.statistics().bytes;
  }
  const Prefix divided = cache.Find(Owner(), Count(0, kLong), kLong);
  ExpectTokens(divided, Count(0, kLong));
  for (const HiddenRows& part : divided.hidden) {
    const auto is_same = [&](const HiddenRows& other) { return other.states == part.states; };
    EXPECT_TRUE(std::any_of(whole.hidden.begin(), whole.hidden.end(), is_same));
  }
}

/// Each turn of a conversation follows the whole of the one before.
TEST_F(PrefixCacheTest, AGrowingConversationTakesTheMemoryOfItsLastTurn) {
  const auto converse = [&](PrefixCache& cache, int64_t tokens) {
    for (int64_t length = 30; length <= tokens; length += 30) {
      EXPECT_EQ(Ask(cache, Owner(), Count(0, length)), std::max<int64_t>(0, length - 30)) << length;
    }
  };
  PrefixCache probe(kEnough);
  Ask(probe, Owner(), Count(0, 1200));
  const int64_t alone = probe.statistics().bytes;
  while (Evict(probe)) {
  }
  PrefixCache cache(alone);
  converse(cache, 1200);
  EXPECT_EQ(cache.statistics().bytes, alone);
  EXPECT_EQ(cache.statistics().evictions, 0);
  EXPECT_EQ(static_cast<int64_t>(memory_->used_bytes()), alone - 1200 * (kWidth + 1) * 4);
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

TEST_F(PrefixCacheTest, EvictsTheLeafThatWasNotUsedForLongest) {
  PrefixCache probe(kEnough);
  const Ids prefix = Count(0, 512);
  Ask(probe, Owner(), Join(prefix, {5000, 0}));
  const int64_t one = probe.statistics().bytes;
  Ask(probe, Owner(), Join(prefix, {6000, 0}));
  const int64_t another = probe.statistics().bytes - one;

  PrefixCache cache(one + another);  // for two leaves
  Ask(cache, Owner(), Join(prefix, {5000, 0}));
  Ask(cache, Owner(), Join(prefix, {6000, 0}));
  EXPECT_EQ(Ask(cache, Owner(), Join(prefix, {5000, 0})), 513) << "now the other is older";
  EXPECT_EQ(Ask(cache, Owner(), Join(prefix, {7000, 0})), 512);
  EXPECT_EQ(cache.statistics().evictions, 1);
  EXPECT_EQ(cache.Find(Owner(), Join(prefix, {6000, 0}), 514).length, 512) << "evicted";
  EXPECT_EQ(cache.Find(Owner(), Join(prefix, {5000, 0}), 514).length, 514);
  EXPECT_EQ(cache.Find(Owner(), Join(prefix, {7000, 0}), 514).length, 514);
  EXPECT_LE(cache.statistics().bytes, cache.max_bytes());
}

TEST_F(PrefixCacheTest, AnAccountCannotEndThePrefixesOfOneThatHasLess) {
  PrefixCache probe(kEnough);
  Ask(probe, Owner(), Count(0, 64));
  const int64_t one = probe.statistics().bytes;

  PrefixCache cache(10 * one);
  Ask(cache, Owner("modest"), Count(0, 64));
  Ask(cache, Owner("modest"), Count(1, 64));
  for (int32_t i = 0; i < 100; ++i) {
    Ask(cache, Owner("greedy"), Count(i, 64));
    EXPECT_LE(cache.statistics().bytes, cache.max_bytes());
  }
  EXPECT_EQ(cache.Find(Owner("modest"), Count(0, 64), 64).length, 64);
  EXPECT_EQ(cache.Find(Owner("modest"), Count(1, 64), 64).length, 64);
  EXPECT_EQ(cache.Find(Owner("greedy"), Count(99, 64), 64).length, 64);
  for (int32_t i = 0; i < 100; ++i) {
    Ask(cache, Owner("modest"), Count(i, 64));
  }
  EXPECT_EQ(cache.Find(Owner("greedy"), Count(99, 64), 64).length, 64) << "half stays its own";
}

TEST_F(PrefixCacheTest, ASequenceBeyondTheBudgetStaysOutAndLeavesTheOthers) {
  PrefixCache probe(kEnough);
  Ask(probe, Owner(), Count(0, 512));
  PrefixCache cache(2 * probe.statistics().bytes);
  Ask(cache, Owner("b"), Count(0, 100));
  Ask(cache, Owner("a"), Count(0, 2000));
  EXPECT_EQ(cache.Find(Owner("a"), Count(0, 2000), 2000).length, 0);
  EXPECT_EQ(cache.Find(Owner("b"), Count(0, 100), 100).length, 100);
}

TEST_F(PrefixCacheTest, ThePrefixesOfAModelGoWithIt) {
  PrefixCache cache(kEnough);
  Ask(cache, Owner(), Count(0, 100));
  ASSERT_GT(memory_->used_bytes(), 0);
  model_ = MakeModel();  // a new version, perhaps at the same address
  EXPECT_EQ(cache.Find(Owner(), Count(0, 100), 99).length, 0);
  Ask(cache, Owner(), Count(0, 10));
  EXPECT_EQ(cache.statistics().prefixes, 1) << "the first owner's have gone";
  model_ = MakeModel();
  EXPECT_TRUE(Evict(cache, "anybody")) << "nobody needs them";
  EXPECT_EQ(cache.statistics().bytes, 0);
  EXPECT_EQ(memory_->used_bytes(), 0);
}

TEST_F(PrefixCacheTest, AnotherThreadGivesTheMemoryBack) {
  PrefixCache probe(kEnough);
  Ask(probe, Owner(), Count(0, 600));
  int wakes = 0;
  PrefixCache cache(probe.statistics().bytes, [&] { ++wakes; });
  Ask(cache, Owner(), Count(0, 600));
  EXPECT_EQ(wakes, 0);
  const size_t before = memory_->used_bytes();
  Ask(cache, Owner(), Count(1, 600));
  EXPECT_EQ(wakes, 1);
  EXPECT_GT(memory_->used_bytes(), before);
  cache.DestroyRemoved();
  EXPECT_EQ(memory_->used_bytes(), before);
  Ask(cache, Owner(), Count(2, 600));
  EXPECT_TRUE(Evict(cache)) << "who needs room does not wait for the other thread";
  EXPECT_EQ(memory_->used_bytes(), before);
  EXPECT_EQ(cache.statistics().evictions, 2);
}

TEST_F(PrefixCacheTest, CountsUsesAndEvictions) {
  PrefixCache cache(kEnough);
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
