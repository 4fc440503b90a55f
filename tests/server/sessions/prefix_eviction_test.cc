// Which prefixes the cache evicts, whose, and what stays because somebody uses it.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "server/sessions/prefix_cache.h"
#include "tests/server/sessions/prefix_cache_fixture.h"
#include "tests/server/token_ids.h"

namespace attention {
namespace {

class PrefixEvictionTest : public PrefixCacheTest {
 protected:
  /// Returns the memory of the pages of all layers; those that several have count once.
  static size_t BytesOfPages(const std::vector<const Prefix*>& prefixes) {
    std::map<const void*, size_t> pages;
    for (const Prefix* prefix : prefixes) {
      for (const KvCache& cache : prefix->caches) {
        cache.VisitPages([&](const void* page, size_t size_bytes) { pages[page] = size_bytes; });
      }
    }
    size_t bytes = 0;
    for (const auto& [_, size_bytes] : pages) {
      bytes += size_bytes;
    }
    return bytes;
  }
};

TEST_F(PrefixEvictionTest, WhatIsTakenOutlivesItsEviction) {
  const Ids ids = Count(0, 600);
  PrefixCache probe(kEnoughBytes);
  Ask(probe, Owner(), ids);
  PrefixCache cache(probe.statistics().bytes);  // for one
  Ask(cache, Owner(), ids);
  Prefix taken = cache.Find(Owner(), ids, 599);
  Ask(cache, Owner(), Count(1, 600));
  ASSERT_EQ(cache.Find(Owner(), ids, 599).length, 0);
  ASSERT_EQ(taken.length, 599);
  ExpectTokens(taken, ids);
  const std::vector<float> row(kPrefixWidth, 599.0f);
  Append(row, taken.caches);
  cache.Add(Owner(), {.ids = ids, .caches = taken.caches, .known = 599, .hidden = row});
  EXPECT_EQ(cache.Find(Owner(), ids, 600).length, 0) << "what was before it is not known any more";
}

TEST_F(PrefixEvictionTest, WhatSomebodyUsesIsNotEvictedForRoom) {
  PrefixCache cache(kEnoughBytes);
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

/// A session that has copied the last page of its prompt still shares the first.
TEST_F(PrefixEvictionTest, APageThatNobodyUsesIsEvictedBesideOnesInUse) {
  PrefixCache cache(kEnoughBytes);
  const Ids prompt = Count(0, 900);
  Ask(cache, Owner(), prompt);
  Prefix session = cache.Find(Owner(), prompt, 900);
  EXPECT_FALSE(Evict(cache)) << "all of its pages would stay";
  Append(std::vector<float>(kPrefixWidth), session.caches);
  const size_t before = memory_->used_bytes();
  EXPECT_TRUE(Evict(cache));
  EXPECT_EQ(before - memory_->used_bytes(),
            kPrefixLayers * KvCache::SizeBytes(session.caches[0].shape(), 900 - 512));
  EXPECT_EQ(cache.statistics().prefixes, 0);
}

/// The common tokens of two prompts have the page of the first, and a session uses the second.
TEST_F(PrefixEvictionTest, CommonTokensKeepNoPageThatOnlyTheyHave) {
  PrefixCache cache(kEnoughBytes);
  const Ids common = Count(0, 100);
  const Ids second = Join(common, {6000});
  Ask(cache, Owner(), Join(common, {5000}));
  Ask(cache, Owner(), second);
  const Prefix session = cache.Find(Owner(), second, 101);
  EXPECT_TRUE(Evict(cache)) << "the first";
  EXPECT_EQ(memory_->used_bytes(), BytesOfPages({&session}));
  EXPECT_EQ(cache.Find(Owner(), common, 100).length, 100);
  EXPECT_FALSE(Evict(cache));
}

TEST_F(PrefixEvictionTest, NothingStaysButThePagesOfSessions) {
  std::mt19937 random(1);
  for (int turn = 0; turn < 20; ++turn) {
    PrefixCache cache(kEnoughBytes);
    std::deque<Prefix> sessions;
    Ids last;
    for (int i = 0; i < 30; ++i) {
      Ids ids(last.begin(), last.begin() + random() % (last.size() + 1));
      ids = Join(ids, Count(static_cast<int32_t>(1000 * i), 1 + random() % 400));
      Ask(cache, Owner(), ids);
      if (random() % 3 == 0) {
        sessions.push_back(cache.Find(Owner(), ids, 1 + random() % std::ssize(ids)));
      }
      if (random() % 8 == 0 && !sessions.empty()) {  // a step, which copies the last page
        Append(std::vector<float>(kPrefixWidth), sessions[random() % sessions.size()].caches);
      }
      last = std::move(ids);
    }
    while (Evict(cache)) {
    }
    std::vector<const Prefix*> all;
    std::ranges::transform(sessions, std::back_inserter(all), [](Prefix& one) { return &one; });
    EXPECT_EQ(memory_->used_bytes(), BytesOfPages(all)) << "turn " << turn;
  }
}

TEST_F(PrefixEvictionTest, WhatIsHeldStaysWhenTheBudgetIsFull) {
  PrefixCache probe(kEnoughBytes);
  Ask(probe, Owner(), Count(0, 600));
  PrefixCache cache(probe.statistics().bytes);  // for one
  Ask(cache, Owner(), Count(0, 600));
  const PrefixHold waits = cache.Hold(Owner(), Count(0, 600), 599);
  Ask(cache, Owner(), Count(1, 600));
  EXPECT_LE(cache.statistics().bytes, cache.max_bytes());
  EXPECT_EQ(cache.Take(waits).length, 599);
  EXPECT_EQ(cache.Find(Owner(), Count(1, 600), 599).length, 0);
}

TEST_F(PrefixEvictionTest, EvictsTheLeafThatWasNotUsedForLongest) {
  PrefixCache probe(kEnoughBytes);
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

TEST_F(PrefixEvictionTest, AnAccountCannotEndThePrefixesOfOneThatHasLess) {
  PrefixCache probe(kEnoughBytes);
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

TEST_F(PrefixEvictionTest, ASequenceBeyondTheBudgetStaysOutAndLeavesTheOthers) {
  PrefixCache probe(kEnoughBytes);
  Ask(probe, Owner(), Count(0, 512));
  PrefixCache cache(2 * probe.statistics().bytes);
  Ask(cache, Owner("b"), Count(0, 100));
  Ask(cache, Owner("a"), Count(0, 2000));
  EXPECT_EQ(cache.Find(Owner("a"), Count(0, 2000), 2000).length, 0);
  EXPECT_EQ(cache.Find(Owner("b"), Count(0, 100), 100).length, 100);
}

TEST_F(PrefixEvictionTest, ThePrefixesOfAModelGoWithIt) {
  PrefixCache cache(kEnoughBytes);
  Ask(cache, Owner(), Count(0, 100));
  ASSERT_GT(memory_->used_bytes(), 0);
  model_ = MakePrefixModel();  // a new version, perhaps at the same address
  EXPECT_EQ(cache.Find(Owner(), Count(0, 100), 99).length, 0);
  Ask(cache, Owner(), Count(0, 10));
  EXPECT_EQ(cache.statistics().prefixes, 1) << "the first owner's have gone";
  model_ = MakePrefixModel();
  EXPECT_TRUE(Evict(cache, "anybody")) << "nobody needs them";
  EXPECT_EQ(cache.statistics().bytes, 0);
  EXPECT_EQ(memory_->used_bytes(), 0);
}

TEST_F(PrefixEvictionTest, AnotherThreadGivesTheMemoryBack) {
  PrefixCache probe(kEnoughBytes);
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

TEST_F(PrefixEvictionTest, NothingIsCountedOfWhatIsGone) {
  PrefixCache cache(kEnoughBytes);
  const Ids other = Count(9000, 64);
  Ask(cache, Owner(), other);
  const int64_t before = cache.statistics().bytes;
  Ask(cache, Owner(), Count(0, 1200));
  Ask(cache, Owner(), Join(Count(0, 600), {7000, 0}));
  Ask(cache, Owner(), other);  // so that it is used last
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(Evict(cache));
  }
  EXPECT_EQ(cache.statistics().prefixes, 1);
  EXPECT_EQ(cache.statistics().bytes, before);
}

TEST_F(PrefixEvictionTest, ASequenceBeyondTheBudgetEvictsNothing) {
  PrefixCache probe(kEnoughBytes);
  Ask(probe, Owner(), Count(0, 512));
  PrefixCache cache(2 * probe.statistics().bytes);
  Ask(cache, Owner(), Count(0, 100));
  Ask(cache, Owner(), Count(1, 2000));
  EXPECT_EQ(cache.Find(Owner(), Count(0, 100), 100).length, 100);
}

TEST_F(PrefixEvictionTest, WhatARequestHasWaitedForWasUsed) {
  PrefixCache probe(kEnoughBytes);
  Ask(probe, Owner(), Count(0, 600));
  const int64_t one = probe.statistics().bytes;
  PrefixCache cache(2 * one + one / 2);
  Ask(cache, Owner(), Count(0, 600));
  Ask(cache, Owner(), Count(1, 600));
  {
    const PrefixHold held = cache.Hold(Owner(), Count(0, 600), 599);
  }
  Ask(cache, Owner(), Count(2, 600));
  EXPECT_EQ(cache.Find(Owner(), Count(0, 600), 599).length, 599);
  EXPECT_EQ(cache.Find(Owner(), Count(1, 600), 599).length, 0);
}

TEST_F(PrefixEvictionTest, WhoHasAsMuchTakesNoRoomOfOthers) {
  PrefixCache probe(kEnoughBytes);
  Ask(probe, Owner(), Count(0, 600));
  const int64_t one = probe.statistics().bytes;
  PrefixCache cache(3 * one + one / 2);
  for (const char* account : {"a", "b"}) {
    Ask(cache, Owner(account), Count(0, 600));
    Ask(cache, Owner(account), Count(1, 600));
  }
  EXPECT_EQ(cache.Find(Owner("a"), Count(0, 600), 600).length, 600);
  EXPECT_EQ(cache.Find(Owner("b"), Count(0, 600), 600).length, 0) << "it gave up its own";
}

TEST_F(PrefixEvictionTest, WhoHasAsMuchMemoryEvictsNothingOfOthers) {
  PrefixCache cache(kEnoughBytes);
  Ask(cache, Owner("a"), Count(0, 600));
  EXPECT_FALSE(Evict(cache, "b")) << "all memory counts as that of neither";
}

}  // namespace
}  // namespace attention
