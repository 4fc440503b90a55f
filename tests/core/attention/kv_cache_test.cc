// The cache of keys and values: what it answers, what it costs, who shares it.
#include "core/attention/kv_cache.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/kernels/onednn/isa.h"
#include "gtest/gtest.h"
#include "tests/support/attention_problem.h"
#include "tests/support/golden.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using Storage = KeyValueStorage;

/// A whole sequence, and calls on parts of it as a decoder makes them.
class Decoder {
 public:
  Decoder(AttentionProblem& problem, Storage storage, std::shared_ptr<KvMemory> memory = nullptr,
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

  /// The last `count` rows of what is cached, written to the problem's output.
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

struct CachedKind {
  const char* name;
  AttentionOptions options;
  Extras extras = {};
};

const CachedKind kCachedKinds[] = {
    {"Causal", {.causal = true}},
    {"Window", {.causal = true, .window = 70}},
    {"WindowDilated", {.causal = true, .window = 140, .window_dilation = 4}},
    {"Rotary", {.causal = true, .rotary = Rotary{.base = 500000}}},
    {"NormsRotarySinksSoftcap",
     {.causal = true, .softcap = 20, .rotary = Rotary{.interleaved = true}},
     {.sinks = true, .query_norm = true, .key_norm = true}},
    {"Alibi", {.causal = true}, {.alibi = true}},
    {"Gaussian", {.causal = true, .similarity = Similarity::kGaussian, .bandwidth = 30}},
};

class CachedKindTest : public ::testing::TestWithParam<CachedKind> {};
INSTANTIATE_TEST_SUITE_P(All, CachedKindTest, ::testing::ValuesIn(kCachedKinds),
                         [](const auto& p) { return std::string(p.param.name); });

constexpr int64_t kCachedLength = 700;
const reference::Extents kExtents{kCachedLength, kCachedLength, 6, 2, 48, 40};

TEST_P(CachedKindTest, HoweverASequenceIsCutItsBitsAreThoseOfOneShot) {
  AttentionProblem whole(1, Dtype::kF32, kExtents, GetParam().options);
  whole.Add(GetParam().extras);
  RunAlone(whole, 2);
  const std::vector<std::vector<int64_t>> cuts = {
      {700}, {1, 1, 1, 697}, {63, 1, 64, 65, 507}, {256, 1, 255, 188}, {300, 3, 1, 396}};
  for (const std::vector<int64_t>& cut : cuts) {
    AttentionProblem parts(1, Dtype::kF32, kExtents, GetParam().options);
    parts.Add(GetParam().extras);
    Decoder decoder(parts, Storage::kF32);
    for (const int64_t count : cut) {
      decoder.Step(count);
    }
    EXPECT_EQ(Bytes(parts.output), Bytes(whole.output)) << "cut of " << cut.size();
  }
}

TEST(KvCacheTest, TheSizeOfPagesDoesNotChangeTheBits) {
  constexpr reference::Extents kLong{2100, 2100, 4, 2, 48, 40};
  for (const Storage storage : {Storage::kF32, Storage::kBf16, Storage::kInt8}) {
    std::vector<std::vector<uint8_t>> outputs;
    for (const int64_t page_tokens : {512, 1024, 2048}) {
      AttentionProblem problem(3, Dtype::kF32, kLong, {.causal = true});
      Decoder decoder(problem, storage, nullptr, page_tokens);
      for (const int64_t count : {511, 2, 511, 1000, 76}) {
        decoder.Step(count);
      }
      outputs.push_back(Bytes(problem.output));
    }
    EXPECT_EQ(outputs[0], outputs[2]);
    EXPECT_EQ(outputs[1], outputs[2]);
  }
}

TEST(KvCacheTest, PagesThatAreNoMultipleOfTheKeyTileAreRefused) {
  for (const int64_t page_tokens : {0, 64, 511, 513, -512}) {
    EXPECT_THAT(KvCache::Create({1, 16, 16, Storage::kF32, page_tokens}),
                StatusIs(kInvalid, ::testing::Eq("page_tokens: expected a multiple of 512, found " +
                                                 std::to_string(page_tokens))));
  }
}

TEST(KvCacheTest, CachesOfTheSameTokensShareTheirFullPages) {
  constexpr reference::Extents kLong{1300, 1300, 2, 2, 32, 32};
  AttentionProblem problem(3, Dtype::kF32, kLong, {.causal = true});
  RunAlone(problem);
  const std::vector<uint8_t> expected = Bytes(problem.output);
  const auto memory = std::make_shared<KvMemory>();
  Decoder first(problem, Storage::kF32, memory, 512);
  Decoder second(problem, Storage::kF32, memory, 512);
  first.Step(1100);
  second.Step(1200);
  const size_t used = memory->used_bytes();
  const size_t page_bytes = KvCache::SizeBytes(first.cache().shape(), 512);
  const auto pages = [](const Decoder& decoder) {
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

TEST(KvCacheTest, ManyStepsOfOneEqualOneShotBitForBit) {
  const AttentionOptions causal{.causal = true};
  AttentionProblem whole(2, Dtype::kF32, {330, 330, 4, 4, 64, 64}, causal);
  RunAlone(whole);
  AttentionProblem steps(2, Dtype::kF32, {330, 330, 4, 4, 64, 64}, causal);
  Decoder decoder(steps, Storage::kF32);
  for (int64_t i = 0; i < 330; ++i) {
    decoder.Step(1);
  }
  EXPECT_EQ(Bytes(steps.output), Bytes(whole.output));
}

TEST(KvCacheTest, ThreadsAndBatchMatesDoNotMatter) {
  for (const Storage storage : {Storage::kF32, Storage::kBf16, Storage::kInt8}) {
    AttentionProblem alone(3, Dtype::kF32, kExtents, {.causal = true});
    Decoder one(alone, storage);
    ASSERT_THAT(one.Append(kCachedLength), IsOk());
    one.Attend(kCachedLength, 1);
    AttentionProblem threads(3, Dtype::kF32, kExtents, {.causal = true});
    Decoder two(threads, storage);
    ASSERT_THAT(two.Append(kCachedLength), IsOk());
    two.Attend(kCachedLength, 3);
    EXPECT_EQ(Bytes(threads.output), Bytes(alone.output));

    AttentionProblem mate(3, Dtype::kF32, kExtents, {.causal = true});
    AttentionProblem uncached(4, Dtype::kF32, {5, 90, 6, 2, 48, 40}, {.causal = true});
    AttentionSequence cached = mate.Sequence();
    cached.key = cached.value = {};
    cached.cache = &two.cache();
    const AttentionSequence batch[] = {uncached.Sequence(), cached};
    ThreadPool pool(2);
    Workspace workspace(pool);
    ASSERT_THAT(ScaledDotProductAttention(batch, workspace), IsOk());
    EXPECT_EQ(Bytes(mate.output), Bytes(alone.output));
  }
}

TEST(KvCacheTest, RoundedStorageStaysClose) {
  // bf16 keys and values of f32 inputs, and 8 bits a number: errors of rounding N(0, 1) inputs.
  for (const auto& [storage, tolerance] :
       {std::pair(Storage::kBf16, 5e-3), std::pair(Storage::kInt8, 2e-2)}) {
    for (const int64_t step : {1, 4, 700}) {
      AttentionProblem problem(5, Dtype::kF32, kExtents, {.causal = true});
      Decoder decoder(problem, storage);
      for (int64_t done = 0; done < kCachedLength;) {
        const int64_t count = std::min(step * (done < 640 ? 160 : 1), kCachedLength - done);
        decoder.Step(count);
        done += count;
      }
      EXPECT_LE(reference::RelativeL2(ToDoubles(problem.output), problem.Expected()), tolerance)
          << "storage " << static_cast<int>(storage) << " step " << step;
    }
  }
}

TEST(KvCacheTest, Bf16StorageOfBf16InputsIsAsExactAsNoCache) {
  AttentionProblem problem(6, Dtype::kBf16, kExtents, {.causal = true});
  Decoder decoder(problem, Storage::kBf16);
  decoder.Step(600);
  decoder.Step(100);
  AttentionProblem whole(6, Dtype::kBf16, kExtents, {.causal = true});
  RunAlone(whole);
  EXPECT_EQ(Bytes(problem.output), Bytes(whole.output));
}

TEST(KvCacheTest, ATruncatedCacheContinuesAsIfNothingHadBeen) {
  for (const int64_t kept : {0, 1, 64, 100, 256, 300, 699}) {
    AttentionProblem problem(7, Dtype::kF32, kExtents, {.causal = true});
    RunAlone(problem);
    const std::vector<uint8_t> expected = Bytes(problem.output);
    AttentionProblem other(8, Dtype::kF32, kExtents, {.causal = true});
    // Something else after the tokens that are kept, some of it not finite.
    std::copy_n(problem.key.as<float>(), kept * 2 * 48, other.key.as<float>());
    std::copy_n(problem.value.as<float>(), kept * 2 * 40, other.value.as<float>());
    std::fill_n(other.value.as<float>() + kept * 2 * 40, 80, NAN);
    Decoder wrong(other, Storage::kF32);
    ASSERT_THAT(wrong.Append(kCachedLength), IsOk());
    ASSERT_THAT(wrong.cache().Truncate(kept), IsOk());
    EXPECT_EQ(wrong.cache().length(), kept);
    Decoder decoder(problem, Storage::kF32);
    decoder.cache() = std::move(wrong.cache());
    if (kept > 0) {
      decoder.Attend(kept);  // before anything covers what was forgotten
    }
    decoder.Step(kCachedLength - kept);
    EXPECT_EQ(Bytes(problem.output), expected) << kept;
  }
}

TEST(KvCacheTest, ForksShareUntilOneIsAppendedTo) {
  for (const int64_t shared : {1, 100, 256, 400}) {
    AttentionProblem first(9, Dtype::kF32, kExtents, {.causal = true});
    AttentionProblem second(10, Dtype::kF32, kExtents, {.causal = true});
    std::copy_n(first.key.as<float>(), shared * 2 * 48, second.key.as<float>());
    std::copy_n(first.value.as<float>(), shared * 2 * 40, second.value.as<float>());
    RunAlone(first);
    RunAlone(second);
    const std::vector<uint8_t> expected_first = Bytes(first.output);
    const std::vector<uint8_t> expected_second = Bytes(second.output);

    auto memory = std::make_shared<KvMemory>();
    Decoder one(first, Storage::kF32, memory);
    ASSERT_THAT(one.Append(shared), IsOk());
    const size_t before = memory->used_bytes();
    Decoder two(second, Storage::kF32, memory);
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

TEST(KvCacheTest, CountsEveryPageOnce) {
  auto memory = std::make_shared<KvMemory>();
  const KvCacheShape shape{2, 64, 64, Storage::kF32};
  AttentionProblem problem(11, Dtype::kF32, {600, 600, 2, 2, 64, 64});
  {
    Decoder decoder(problem, Storage::kF32, memory);
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

TEST(KvCacheTest, Int8TakesAQuarter) {
  const size_t f32 = KvCache::SizeBytes({8, 128, 128, Storage::kF32}, 1024);
  EXPECT_LT(KvCache::SizeBytes({8, 128, 128, Storage::kBf16}, 1024), 0.51 * f32);
  EXPECT_LT(KvCache::SizeBytes({8, 128, 128, Storage::kInt8}, 1024), 0.27 * f32);
}

TEST(KvCacheTest, AFullMemoryRefusesAndLosesNothing) {
  const KvCacheShape shape{2, 48, 40, Storage::kF32};
  auto memory = std::make_shared<KvMemory>(KvCache::SizeBytes(shape, 512));
  AttentionProblem problem(12, Dtype::kF32, kExtents, {.causal = true});
  RunAlone(problem);
  const std::vector<uint8_t> expected = Bytes(problem.output);
  Decoder decoder(problem, Storage::kF32, memory);
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

TEST(KvCacheTest, SizeBytesIsAllThatOneCacheNeeds) {
  const KvCacheShape shape{2, 48, 40, Storage::kF32};
  auto memory = std::make_shared<KvMemory>(KvCache::SizeBytes(shape, kCachedLength));
  AttentionProblem problem(14, Dtype::kF32, kExtents, {.causal = true});
  Decoder decoder(problem, Storage::kF32, memory);
  for (int64_t i = 0; i < kCachedLength; ++i) {
    ASSERT_THAT(decoder.Append(1), IsOk()) << i;
  }
  EXPECT_EQ(memory->used_bytes(), memory->max_bytes());
}

TEST(KvCacheTest, LargeValuesSurviveEightBits) {
  AttentionProblem problem(15, Dtype::kF32, {3, 90, 2, 2, 16, 16});
  for (int64_t i = 0; i < problem.value.num_elements(); ++i) {
    problem.value.as<float>()[i] *= 1e35f;
  }
  Decoder decoder(problem, Storage::kInt8);
  ASSERT_THAT(decoder.Append(90), IsOk());
  AttentionSequence s = problem.Sequence();
  s.key = s.value = {};
  s.cache = &decoder.cache();
  ThreadPool pool(1);
  Workspace workspace(pool);
  ASSERT_THAT(ScaledDotProductAttention({&s, 1}, workspace), IsOk());
  EXPECT_LE(reference::RelativeL2(ToDoubles(problem.output), problem.Expected()), 5e-2);
}

TEST(KvCacheTest, RefusesWhatDoesNotFit) {
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
