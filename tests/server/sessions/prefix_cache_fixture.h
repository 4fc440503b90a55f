// A model with few numbers, and requests for it that use a prefix cache.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/sessions/prefix_cache.h"
#include "server/sessions/session.h"
#include "tests/server/token_ids.h"
#include "tests/support/matchers.h"

namespace attention {

inline constexpr int64_t kPrefixWidth = 16;
inline constexpr int64_t kPrefixLayers = 2;
inline constexpr int64_t kEnoughBytes = int64_t{1} << 40;

/// Returns `count` ids: first, first + 1, ..
inline Ids Count(int32_t first, int64_t count) {
  Ids ids(count);
  for (int64_t i = 0; i < count; ++i) {
    ids[i] = first + static_cast<int32_t>(i);
  }
  return ids;
}

inline std::shared_ptr<const Model> MakePrefixModel() {
  auto model = Model::CreateSeeded(
      {.name = "m", .d_model = kPrefixWidth, .num_heads = 1, .vocab_size = 2, .max_positions = 1});
  EXPECT_THAT(model.status(), IsOk());
  return *std::move(model);
}

/// Tests that ask a prefix cache as requests do.
class PrefixCacheTest : public ::testing::Test {
 protected:
  PrefixOwner Owner(const std::string& account = "a", const std::string& tenant = "") const {
    return {.model = model_, .account = account, .tenant = tenant};
  }

  std::vector<KvCache> NewCaches() const {
    std::vector<KvCache> caches;
    for (int64_t i = 0; i < kPrefixLayers; ++i) {
      caches.push_back(*KvCache::Create({.num_kv_heads = 1,
                                         .head_dim = kPrefixWidth,
                                         .value_head_dim = kPrefixWidth,
                                         .page_tokens = PrefixCache::kPageTokens},
                                        memory_));
    }
    return caches;
  }

  /// Appends rows as keys and values to each layer.
  static void Append(const std::vector<float>& rows, std::vector<KvCache>& caches) {
    const void* data = rows.data();
    const HeadsView view =
        DenseHeads(data, Dtype::kF32, std::ssize(rows) / kPrefixWidth, 1, kPrefixWidth);
    for (KvCache& layer : caches) {
      EXPECT_THAT(layer.Append(view, view), IsOk());
    }
  }

  /// Returns the memory that a node of the tree has besides ids, pages and hidden states, if its
  /// last token is the `end`th of a sequence.
  int64_t NodeBytes(int64_t end) const {
    std::vector<KvCache> caches = NewCaches();
    Append(std::vector<float>(end * kPrefixWidth), caches);
    return static_cast<int64_t>(sizeof(PrefixTree::Node)) + TableBytes(caches);
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
      rows.insert(rows.end(), kPrefixWidth, static_cast<float>(*id));
    }
    Append(rows, caches);
    cache.Add(owner, {.ids = ids, .caches = caches, .known = prefix.length, .hidden = rows});
    return prefix.length;
  }

  /// Expects that keys, values and hidden states are those of the ids.
  static void ExpectTokens(const Prefix& prefix, const Ids& ids) {
    std::vector<float> hidden;
    for (const HiddenRows& part : prefix.hidden) {
      const auto first = part.states->begin() + part.first * kPrefixWidth;
      hidden.insert(hidden.end(), first, first + part.rows * kPrefixWidth);
    }
    ASSERT_EQ(std::ssize(hidden), prefix.length * kPrefixWidth);
    for (int64_t i = 0; i < prefix.length; ++i) {
      ASSERT_EQ(hidden[i * kPrefixWidth], static_cast<float>(ids[i])) << i;
    }
    for (const KvCache& cache : prefix.caches) {
      ASSERT_EQ(cache.length(), prefix.length);
      const CachedKeyValues view = cache.View();
      for (int64_t i = 0; i < prefix.length; ++i) {
        const HeadPage& page = view.pages[i / PrefixCache::kPageTokens];
        const auto* keys = reinterpret_cast<const float*>(page.keys);
        const int64_t in_page = i % PrefixCache::kPageTokens;
        ASSERT_EQ(keys[in_page / kKeyBlock * kKeyBlock * kPrefixWidth + in_page % kKeyBlock],
                  static_cast<float>(ids[i]))
            << i;
      }
    }
  }

  /// Evicts a leaf for room; all memory counts as that of `account`.
  static bool Evict(PrefixCache& cache, const std::string& account = "a") {
    return cache.EvictFor(account, [](const std::string&) { return 0; });
  }

  std::shared_ptr<const Model> model_ = MakePrefixModel();
  std::shared_ptr<KvMemory> memory_ = std::make_shared<KvMemory>();
};

}  // namespace attention
