// Caches of a few equal tokens: what was in their memory before, and what others write to shared
// pages, reaches no row.
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/attention/attention.h"
#include "core/attention/kv_cache.h"
#include "gmock/gmock.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using Storage = KeyValueStorage;
using ::testing::Each;
using ::testing::FloatNear;

constexpr int64_t kDim = 16;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Appends tokens of one head, all elements of whose values are `value`.
absl::Status Append(KvCache& cache, int64_t tokens, float value) {
  const std::vector<float> keys(tokens * kDim, 0.5f);
  const std::vector<float> values(tokens * kDim, value);
  const void* key = keys.data();
  const void* value_data = values.data();
  return cache.Append(DenseHeads(key, Dtype::kF32, tokens, 1, kDim),
                      DenseHeads(value_data, Dtype::kF32, tokens, 1, kDim));
}

/// Returns the row of the last token.
std::vector<float> LastRow(const KvCache& cache, const AttentionOptions& options) {
  const std::vector<float> query(kDim, 1.0f);
  std::vector<float> output(kDim);
  const void* query_data = query.data();
  void* output_data = output.data();
  const AttentionSequence sequence{.query = DenseHeads(query_data, Dtype::kF32, 1, 1, kDim),
                                   .output = DenseHeads(output_data, Dtype::kF32, 1, 1, kDim),
                                   .cache = &cache,
                                   .options = options};
  ThreadPool pool(1);
  Workspace workspace(pool);
  EXPECT_THAT(ScaledDotProductAttention({&sequence, 1}, workspace), IsOk());
  return output;
}

class KvStaleTest : public ::testing::TestWithParam<Storage> {
 protected:
  KvCache NewCache() { return *KvCache::Create({1, kDim, kDim, GetParam()}, memory_); }
  /// Leaves values in the memory of the next page of 64 tokens.
  void LeaveInMemory(float value) {
    KvCache cache = NewCache();
    EXPECT_THAT(Append(cache, 64, value), IsOk());
  }

  const std::shared_ptr<KvMemory> memory_ = std::make_shared<KvMemory>();
};

INSTANTIATE_TEST_SUITE_P(Storages, KvStaleTest,
                         ::testing::Values(Storage::kF32, Storage::kBf16, Storage::kInt8));

TEST_P(KvStaleTest, WhatWasInTheMemoryBeforeReachesNoRow) {
  LeaveInMemory(kNan);
  KvCache cache = NewCache();
  ASSERT_THAT(Append(cache, 3, 2.0f), IsOk());
  EXPECT_THAT(LastRow(cache, {.causal = true}), Each(FloatNear(2.0f, 0.02f)));
}

TEST_P(KvStaleTest, AHiddenNanReachesNoRow) {
  KvCache cache = NewCache();
  ASSERT_THAT(Append(cache, 1, kNan), IsOk());
  ASSERT_THAT(Append(cache, 3, 2.0f), IsOk());
  EXPECT_THAT(LastRow(cache, {.causal = true, .window = 3}), Each(FloatNear(2.0f, 0.02f)));
}

TEST_P(KvStaleTest, AHiddenNanOfACopiedPageReachesNoRow) {
  KvCache cache = NewCache();
  ASSERT_THAT(Append(cache, 1, kNan), IsOk());
  LeaveInMemory(1.0f);
  KvCache fork = cache.Fork();
  ASSERT_THAT(Append(fork, 3, 2.0f), IsOk());
  EXPECT_THAT(LastRow(fork, {.causal = true, .window = 3}), Each(FloatNear(2.0f, 0.02f)));
}

TEST(KvShareTest, APageThatAnotherTookIsCopiedBeforeItsOwnerWrites) {
  const auto memory = std::make_shared<KvMemory>();
  const KvCacheShape shape{1, kDim, kDim, Storage::kF32, 512};
  KvCache owner = *KvCache::Create(shape, memory);
  KvCache other = *KvCache::Create(shape, memory);
  ASSERT_THAT(Append(owner, 512, 1.0f), IsOk());
  ASSERT_THAT(Append(other, 512, 1.0f), IsOk());
  other.SharePages(owner, 512);
  ASSERT_THAT(owner.Truncate(500), IsOk());
  ASSERT_THAT(Append(owner, 12, 9.0f), IsOk());
  EXPECT_THAT(LastRow(other, {.causal = true}), Each(1.0f));
}

TEST(KvShareTest, APageThatIsReplacedCountsAsFreeForItsHolder) {
  const KvCacheShape shape{1, kDim, kDim, Storage::kF32, 512};
  const auto whole = std::make_shared<KvMemory>(3 * KvCache::SizeBytes(shape, 64));
  const auto takes_from_nothing = [](size_t own, size_t, size_t used, size_t) {
    return own == 0 && used == 0;
  };
  KvCache cache =
      *KvCache::Create(shape, std::make_shared<KvMemory>(whole, takes_from_nothing, "a"));
  ASSERT_THAT(Append(cache, 64, 1.0f), IsOk());
  EXPECT_THAT(Append(cache, 64, 1.0f), IsOk());
}

}  // namespace
}  // namespace attention
