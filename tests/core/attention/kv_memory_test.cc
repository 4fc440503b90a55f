// The memory of caches: how many bytes they take, which pages they share, and what is refused.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/attention/kv_cache.h"
#include "gtest/gtest.h"
#include "tests/core/attention/cached_sequence.h"
#include "tests/support/attention_problem.h"
#include "tests/support/many_slabs.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using Storage = KeyValueStorage;

TEST(KvMemoryTest, PagesThatAreNoMultipleOfTheKeyTileOrTooLargeAreRefused) {
  for (const int64_t page_tokens : {int64_t{0}, int64_t{64}, int64_t{511}, int64_t{513},
                                    int64_t{-512}, int64_t{1} << 21, int64_t{1} << 40}) {
    EXPECT_THAT(KvCache::Create({1, 16, 16, Storage::kF32, page_tokens}),
                StatusIs(kInvalid,
                         ::testing::Eq("page_tokens: expected a multiple of 512, at most 1048576, "
                                       "found " +
                                       std::to_string(page_tokens))));
  }
}

TEST(KvMemoryTest, CachesOfTheSameTokensShareTheirFullPages) {
  constexpr reference::Extents kLong{1300, 1300, 2, 2, 32, 32};
  AttentionProblem problem(3, Dtype::kF32, kLong, {.causal = true});
  RunAlone(problem);
  const std::vector<uint8_t> expected = Bytes(problem.output);
  const auto memory = std::make_shared<KvMemory>();
  CachedSequence first(problem, Storage::kF32, memory, 512);
  CachedSequence second(problem, Storage::kF32, memory, 512);
  first.Step(1100);
  second.Step(1200);
  const size_t used = memory->used_bytes();
  const size_t page_bytes = KvCache::SizeBytes(first.cache().shape(), 512);
  const auto pages = [](const CachedSequence& decoder) {
    std::vector<const void*> found;
    decoder.cache().VisitPages([&](const void* page, size_t) { found.push_back(page); });
    return found;
  };
  second.cache().SharePages(first.cache(), 1100);
  EXPECT_EQ(memory->used_bytes(), used - 2 * page_bytes) << "the third pages are not full";
  for (const size_t page : {0, 1, 2}) {
    EXPECT_EQ(pages(first)[page] == pages(second)[page], page < 2) << page;
  }
  ASSERT_THAT(first.cache().Truncate(600), IsOk());
  first.Step(700);  // copies the page that it shares
  second.Step(100);
  EXPECT_EQ(Bytes(problem.output), expected);
  first.cache() = std::move(second.cache());
  first.Attend(1300);
  EXPECT_EQ(Bytes(problem.output), expected);
}

/// A cache with one token, of 512 tokens a page and so many heads; empty when there is no memory.
std::optional<KvCache> OneToken(int64_t num_heads, const std::shared_ptr<KvMemory>& memory) {
  absl::StatusOr<KvCache> cache = KvCache::Create({num_heads, 16, 16, Storage::kF32, 512}, memory);
  EXPECT_THAT(cache.status(), IsOk());
  if (const absl::Status status = cache->Reserve(512); !status.ok()) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    return std::nullopt;
  }
  return std::move(*cache);
}

TEST(KvMemoryTest, PagesOfManySizesAreGivenBackToTheSystem) {
  const auto memory = std::make_shared<KvMemory>();
  for (int64_t num_heads = 1; num_heads <= 300; num_heads += 13) {
    const std::optional<KvCache> cache = OneToken(num_heads, memory);
    EXPECT_GE(memory->mapped_bytes(), memory->used_bytes());
  }
  EXPECT_EQ(memory->used_bytes(), 0);
  EXPECT_LE(memory->mapped_bytes(), size_t{16} << 20) << "one small slab is kept";
}

// A caller chooses the sizes, and must not keep others from memory that it does not use.
TEST(KvMemoryTest, OnePageOfEachOfManySizesTakesLittleMemory) {
  const auto memory = std::make_shared<KvMemory>(size_t{1} << 30);
  std::vector<KvCache> caches;
  for (int64_t num_heads = 1; num_heads <= 200; ++num_heads) {
    absl::StatusOr<KvCache> cache = KvCache::Create({num_heads, 1, 1, Storage::kF32, 512}, memory);
    ASSERT_THAT(cache->Reserve(1), IsOk()) << num_heads;
    caches.push_back(*std::move(cache));
  }
  EXPECT_LE(memory->mapped_bytes(), 5 * memory->used_bytes() + 200 * SlabArena::kLeastSlabBytes);
}

TEST(KvMemoryTest, SlabsOfManySizesTakeABoundedAmountMoreThanTheirPages) {
  constexpr size_t kMaxBytes = size_t{64} << 20;
  const auto memory = std::make_shared<KvMemory>(kMaxBytes);
  std::vector<KvCache> left = FillWithSlabs(memory, *memory);
  EXPECT_LE(memory->mapped_bytes(), kMaxBytes + (size_t{256} << 20));
  EXPECT_LT(memory->used_bytes(), kMaxBytes / 2) << "it was the slabs that were too many";
  absl::Status refused;
  std::vector<KvCache> others;
  for (int64_t num_heads = 100; num_heads < 120 && refused.ok(); ++num_heads) {
    others.push_back(*KvCache::Create({num_heads, 16, 16, Storage::kF32, 512}, memory));
    refused = others.back().Reserve(512);
  }
  EXPECT_THAT(refused,
              StatusIs(absl::StatusCode::kResourceExhausted,
                       ::testing::HasSubstr("of so many sizes that their slabs take all")));
  EXPECT_TRUE(OneToken(8, memory).has_value()) << "a slab has room";
  left.clear();
  EXPECT_THAT(others.back().Reserve(512), IsOk()) << "unused slabs went";
}

TEST(KvMemoryTest, ForksShareUntilOneIsAppendedTo) {
  for (const int64_t shared : {1, 100, 256, 400}) {
    AttentionProblem first(9, Dtype::kF32, kCachedExtents, {.causal = true});
    AttentionProblem second(10, Dtype::kF32, kCachedExtents, {.causal = true});
    std::copy_n(first.key.as<float>(), shared * 2 * 48, second.key.as<float>());
    std::copy_n(first.value.as<float>(), shared * 2 * 40, second.value.as<float>());
    RunAlone(first);
    RunAlone(second);
    const std::vector<uint8_t> expected_first = Bytes(first.output);
    const std::vector<uint8_t> expected_second = Bytes(second.output);

    auto memory = std::make_shared<KvMemory>();
    CachedSequence one(first, Storage::kF32, memory);
    ASSERT_THAT(one.Append(shared), IsOk());
    const size_t before = memory->used_bytes();
    CachedSequence two(second, Storage::kF32, memory);
    two.cache() = one.cache().Fork();
    EXPECT_EQ(memory->used_bytes(), before) << "a fork costs nothing";
    one.Attend(shared);
    two.Attend(shared);
    // In turn, so that each would overwrite the other's.
    one.Step(1);
    two.Step(1);
    one.Step(kCachedLength - shared - 1);
    two.Step(kCachedLength - shared - 1);
    EXPECT_EQ(Bytes(first.output), expected_first) << shared;
    EXPECT_EQ(Bytes(second.output), expected_second) << shared;
  }
}

/// Forks that go in any order, while the others grow and are truncated.
TEST(KvMemoryTest, ForksThatGoLeaveTheBitsOfTheOthers) {
  AttentionProblem problem(9, Dtype::kF32, kCachedExtents, {.causal = true});
  RunAlone(problem);
  const std::vector<uint8_t> expected = Bytes(problem.output);
  for (const int64_t shared : {1, 100, 256, 400}) {
    for (const int64_t first_to_go : {0, 1, 2}) {
      std::vector<std::unique_ptr<AttentionProblem>> problems;
      std::vector<std::unique_ptr<CachedSequence>> sequences;
      for (int i = 0; i < 3; ++i) {
        problems.push_back(std::make_unique<AttentionProblem>(9, Dtype::kF32, kCachedExtents,
                                                              AttentionOptions{.causal = true}));
        sequences.push_back(std::make_unique<CachedSequence>(*problems.back(), Storage::kF32));
      }
      sequences[0]->Step(shared);
      sequences[1]->cache() = sequences[0]->cache().Fork();
      sequences[2]->cache() = sequences[1]->cache().Fork();
      sequences[first_to_go].reset();
      for (const int64_t index : {(first_to_go + 1) % 3, (first_to_go + 2) % 3}) {
        CachedSequence& one = *sequences[index];
        one.Attend(shared);
        one.Step(20);
        ASSERT_THAT(one.cache().Truncate(shared), IsOk());
        one.Step(20);
      }
      sequences[(first_to_go + 1) % 3].reset();
      const int64_t last = (first_to_go + 2) % 3;
      sequences[last]->Step(kCachedLength - shared - 20);
      EXPECT_EQ(Bytes(problems[last]->output), expected) << shared << ", " << last;
    }
  }
}

TEST(KvMemoryTest, CountsEveryPageOnce) {
  auto memory = std::make_shared<KvMemory>();
  const KvCacheShape shape{2, 64, 64, Storage::kF32};
  AttentionProblem problem(11, Dtype::kF32, {600, 600, 2, 2, 64, 64});
  {
    CachedSequence decoder(problem, Storage::kF32, memory);
    EXPECT_EQ(memory->used_bytes(), 0);
    int64_t length = 0;
    for (const int64_t count : {1, 63, 1, 63, 128, 1, 300}) {
      ASSERT_THAT(decoder.Append(count), IsOk());
      length += count;
      EXPECT_EQ(decoder.cache().size_bytes(), KvCache::SizeBytes(shape, length)) << length;
      EXPECT_EQ(memory->used_bytes(), decoder.cache().size_bytes()) << length;
      // Keys and values, and at most a page and a few flags more.
      const size_t least = length * 2 * 128 * sizeof(float);
      EXPECT_GE(memory->used_bytes(), least);
      EXPECT_LE(memory->used_bytes(), 2 * least + 64 * 2 * 128 * sizeof(float));
    }
    const KvCache fork = decoder.cache().Fork();
    ASSERT_THAT(decoder.cache().Truncate(0), IsOk());
    EXPECT_EQ(decoder.cache().size_bytes(), 0);
    EXPECT_EQ(memory->used_bytes(), fork.size_bytes()) << "the fork still needs them";
  }
  EXPECT_EQ(memory->used_bytes(), 0);
}

TEST(KvMemoryTest, Int8TakesAQuarter) {
  const size_t f32 = KvCache::SizeBytes({8, 128, 128, Storage::kF32}, 1024);
  EXPECT_LT(KvCache::SizeBytes({8, 128, 128, Storage::kBf16}, 1024), 0.51 * f32);
  EXPECT_LT(KvCache::SizeBytes({8, 128, 128, Storage::kInt8}, 1024), 0.27 * f32);
}

TEST(KvMemoryTest, AFullMemoryRefusesAndLosesNothing) {
  const KvCacheShape shape{2, 48, 40, Storage::kF32};
  auto memory = std::make_shared<KvMemory>(KvCache::SizeBytes(shape, 512));
  AttentionProblem problem(12, Dtype::kF32, kCachedExtents, {.causal = true});
  RunAlone(problem);
  const std::vector<uint8_t> expected = Bytes(problem.output);
  CachedSequence decoder(problem, Storage::kF32, memory);
  ASSERT_THAT(decoder.Append(500), IsOk());
  const size_t used = memory->used_bytes();
  EXPECT_THAT(decoder.Append(200),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       ::testing::HasSubstr("key/value cache: expected room for 200 tokens")));
  EXPECT_EQ(decoder.cache().length(), 500);
  EXPECT_EQ(memory->used_bytes(), used);
  decoder.Attend(500);
  const int64_t row_bytes = std::ssize(expected) / kCachedLength;
  const std::vector<uint8_t> actual = Bytes(problem.output);
  EXPECT_TRUE(std::equal(actual.begin(), actual.begin() + 500 * row_bytes, expected.begin()));
}

TEST(KvMemoryTest, SizeBytesIsAllThatOneCacheNeeds) {
  const KvCacheShape shape{2, 48, 40, Storage::kF32};
  auto memory = std::make_shared<KvMemory>(KvCache::SizeBytes(shape, kCachedLength));
  AttentionProblem problem(14, Dtype::kF32, kCachedExtents, {.causal = true});
  CachedSequence decoder(problem, Storage::kF32, memory);
  for (int64_t i = 0; i < kCachedLength; ++i) {
    ASSERT_THAT(decoder.Append(1), IsOk()) << i;
  }
  EXPECT_EQ(memory->used_bytes(), memory->max_bytes());
}

TEST(KvMemoryTest, RefusesWhatDoesNotFit) {
  EXPECT_THAT(KvCache::Create({0, 64, 64, Storage::kF32}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("num_kv_heads")));
  AttentionProblem problem(13, Dtype::kF32, {5, 5, 2, 2, 64, 64});
  KvCache cache = *KvCache::Create({2, 64, 32, Storage::kF32});
  const AttentionSequence s = problem.Sequence();
  EXPECT_THAT(cache.Append(s.key, s.value),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       ::testing::Eq("value head_dim: expected 32, found 64")));
  EXPECT_THAT(cache.Truncate(1), StatusIs(absl::StatusCode::kInvalidArgument,
                                          ::testing::Eq("length: expected 0 to 0, found 1")));
  AttentionSequence cached = problem.Sequence();
  cached.cache = &cache;
  EXPECT_THAT(
      Validate({&cached, 1}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               ::testing::Eq("sequence 0: key tokens beside a cache: expected 0, found 5")));
}

}  // namespace
}  // namespace attention
