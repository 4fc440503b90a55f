// Attention over a cache of keys and values: its bits, and the error of rounded storage.
#include "core/attention/kv_cache.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/core/attention/cached_sequence.h"
#include "tests/support/attention_problem.h"
#include "tests/support/golden.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using Storage = KeyValueStorage;

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

TEST_P(CachedKindTest, HoweverASequenceIsCutItsBitsAreThoseOfOneShot) {
  AttentionProblem whole(1, Dtype::kF32, kCachedExtents, GetParam().options);
  whole.Add(GetParam().extras);
  RunAlone(whole, 2);
  const std::vector<std::vector<int64_t>> cuts = {
      {700}, {1, 1, 1, 697}, {63, 1, 64, 65, 507}, {256, 1, 255, 188}, {300, 3, 1, 396}};
  for (const std::vector<int64_t>& cut : cuts) {
    AttentionProblem parts(1, Dtype::kF32, kCachedExtents, GetParam().options);
    parts.Add(GetParam().extras);
    CachedSequence decoder(parts, Storage::kF32);
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
      CachedSequence decoder(problem, storage, nullptr, page_tokens);
      for (const int64_t count : {511, 2, 511, 1000, 76}) {
        decoder.Step(count);
      }
      outputs.push_back(Bytes(problem.output));
    }
    EXPECT_EQ(outputs[0], outputs[2]);
    EXPECT_EQ(outputs[1], outputs[2]);
  }
}

TEST(KvCacheTest, KeysConvertedForEarlierTilesAreThoseOfTheirHead) {
  // In one step the tiles of a head share converted keys; in small steps each call converts its
  // own.
  const AttentionOptions kinds[] = {
      {.causal = true},
      {.causal = true, .window = 650},
      {.causal = true, .similarity = Similarity::kGaussian, .bandwidth = 30}};
  for (const Storage storage : {Storage::kBf16, Storage::kInt8}) {
    for (const AttentionOptions& options : kinds) {
      for (const int64_t length : {700, 2100}) {  // of one key section, of two
        const reference::Extents extents{length, length, 4, 2, 48, 40};
        AttentionProblem whole(8, Dtype::kF32, extents, options);
        CachedSequence(whole, storage).Step(length);
        AttentionProblem parts(8, Dtype::kF32, extents, options);
        CachedSequence steps(parts, storage);
        for (int64_t done = 0; done < length; done += 50) {
          steps.Step(50);
        }
        EXPECT_TRUE(Bytes(parts.output) == Bytes(whole.output)) << length << " keys";
      }
    }
  }
}

TEST(KvCacheTest, ManyStepsOfOneEqualOneShotBitForBit) {
  const AttentionOptions causal{.causal = true};
  AttentionProblem whole(2, Dtype::kF32, {330, 330, 4, 4, 64, 64}, causal);
  RunAlone(whole);
  AttentionProblem steps(2, Dtype::kF32, {330, 330, 4, 4, 64, 64}, causal);
  CachedSequence decoder(steps, Storage::kF32);
  for (int64_t i = 0; i < 330; ++i) {
    decoder.Step(1);
  }
  EXPECT_EQ(Bytes(steps.output), Bytes(whole.output));
}

TEST(KvCacheTest, ThreadsAndBatchMatesDoNotMatter) {
  for (const Storage storage : {Storage::kF32, Storage::kBf16, Storage::kInt8}) {
    AttentionProblem alone(3, Dtype::kF32, kCachedExtents, {.causal = true});
    CachedSequence one(alone, storage);
    ASSERT_THAT(one.Append(kCachedLength), IsOk());
    one.Attend(kCachedLength, 1);
    AttentionProblem threads(3, Dtype::kF32, kCachedExtents, {.causal = true});
    CachedSequence two(threads, storage);
    ASSERT_THAT(two.Append(kCachedLength), IsOk());
    two.Attend(kCachedLength, 3);
    EXPECT_EQ(Bytes(threads.output), Bytes(alone.output));

    AttentionProblem mate(3, Dtype::kF32, kCachedExtents, {.causal = true});
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
      AttentionProblem problem(5, Dtype::kF32, kCachedExtents, {.causal = true});
      CachedSequence decoder(problem, storage);
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
  AttentionProblem problem(6, Dtype::kBf16, kCachedExtents, {.causal = true});
  CachedSequence decoder(problem, Storage::kBf16);
  decoder.Step(600);
  decoder.Step(100);
  AttentionProblem whole(6, Dtype::kBf16, kCachedExtents, {.causal = true});
  RunAlone(whole);
  EXPECT_EQ(Bytes(problem.output), Bytes(whole.output));
}

TEST(KvCacheTest, ATruncatedCacheContinuesAsIfNothingHadBeen) {
  for (const int64_t kept : {0, 1, 64, 100, 256, 300, 699}) {
    AttentionProblem problem(7, Dtype::kF32, kCachedExtents, {.causal = true});
    RunAlone(problem);
    const std::vector<uint8_t> expected = Bytes(problem.output);
    AttentionProblem other(8, Dtype::kF32, kCachedExtents, {.causal = true});
    // Something else after the tokens that are kept, some of it not finite.
    std::copy_n(problem.key.as<float>(), kept * 2 * 48, other.key.as<float>());
    std::copy_n(problem.value.as<float>(), kept * 2 * 40, other.value.as<float>());
    std::fill_n(other.value.as<float>() + kept * 2 * 40, 80, NAN);
    CachedSequence wrong(other, Storage::kF32);
    ASSERT_THAT(wrong.Append(kCachedLength), IsOk());
    ASSERT_THAT(wrong.cache().Truncate(kept), IsOk());
    EXPECT_EQ(wrong.cache().length(), kept);
    CachedSequence decoder(problem, Storage::kF32);
    decoder.cache() = std::move(wrong.cache());
    if (kept > 0) {
      decoder.Attend(kept);  // before anything covers what was forgotten
    }
    decoder.Step(kCachedLength - kept);
    EXPECT_EQ(Bytes(problem.output), expected) << kept;
  }
}

// A fork shares pages whose last tokens are not its own, some of them not finite: in every storage,
// with small pages, a window longer than a page, more than one key section, few and many rows.
TEST(KvCacheTest, AForkContinuesAsIfItsTokensWereTheOnlyOnes) {
  constexpr int64_t kTokens = 2300;
  constexpr reference::Extents kLong{kTokens, kTokens, 6, 2, 48, 40};
  for (const Storage storage : {Storage::kF32, Storage::kBf16, Storage::kInt8}) {
    for (const int64_t page_tokens : {512, 2048}) {
      for (const int64_t kept : {100, 1000, 2100}) {
        const AttentionOptions options{.causal = true, .window = 2060};
        AttentionProblem clean(9, Dtype::kF32, kLong, options);
        AttentionProblem forked(9, Dtype::kF32, kLong, options);
        AttentionProblem dirty(9, Dtype::kF32, kLong, options);
        for (int64_t token = kept; token < kTokens; ++token) {
          const float stale = token % 2 == 0 ? NAN : INFINITY;
          std::fill_n(dirty.key.as<float>() + token * 2 * 48, 2 * 48, stale);
          std::fill_n(dirty.value.as<float>() + token * 2 * 40, 2 * 40, stale);
        }
        CachedSequence one(clean, storage, nullptr, page_tokens);
        CachedSequence original(dirty, storage, nullptr, page_tokens);
        ASSERT_THAT(original.Append(kTokens), IsOk());
        CachedSequence fork(forked, storage, nullptr, page_tokens);
        fork.cache() = original.cache().Fork();
        ASSERT_THAT(fork.cache().Truncate(kept), IsOk());
        ASSERT_THAT(one.Append(kept), IsOk());
        for (const int64_t count : {int64_t{1}, int64_t{3}, int64_t{5}, int64_t{9}, int64_t{120}}) {
          for (CachedSequence* sequence : {&one, &fork}) {
            ASSERT_THAT(sequence->Append(count), IsOk());
            sequence->Attend(count, 2);
          }
          const int64_t first = (one.cache().length() - count) * 6 * 40;
          ASSERT_TRUE(std::equal(clean.output.as<float>() + first,
                                 clean.output.as<float>() + first + count * 6 * 40,
                                 forked.output.as<float>() + first))
              << "storage " << static_cast<int>(storage) << ", pages of " << page_tokens << ", "
              << kept << " kept, " << count << " rows";
        }
      }
    }
  }
}

TEST(KvCacheTest, LargeValuesSurviveEightBits) {
  AttentionProblem problem(15, Dtype::kF32, {3, 90, 2, 2, 16, 16});
  for (int64_t i = 0; i < problem.value.num_elements(); ++i) {
    problem.value.as<float>()[i] *= 1e35f;
  }
  CachedSequence decoder(problem, Storage::kInt8);
  ASSERT_THAT(decoder.Append(90), IsOk());
  AttentionSequence s = problem.Sequence();
  s.key = s.value = {};
  s.cache = &decoder.cache();
  ThreadPool pool(1);
  Workspace workspace(pool);
  ASSERT_THAT(ScaledDotProductAttention({&s, 1}, workspace), IsOk());
  EXPECT_LE(reference::RelativeL2(ToDoubles(problem.output), problem.Expected()), 5e-2);
}

}  // namespace
}  // namespace attention
