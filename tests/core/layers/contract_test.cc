// The contract of bits as a table: every kind of attention x every way to compute it gives the same
// bits. A failure reads "KIND x WAY".
#include <algorithm>
#include <iterator>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/layers/multi_head_attention.h"
#include "gtest/gtest.h"
#include "tests/core/layers/contract_subject.h"
#include "tests/core/layers/test_layer.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using Storage = KeyValueStorage;

AttentionOptions Of(Similarity similarity, double bandwidth, bool causal) {
  return {.causal = causal, .similarity = similarity, .bandwidth = bandwidth};
}

const ContractKind kKinds[] = {
    {"Plain", {}},
    {"Causal", {.causal = true}},
    {"CausalOffset", {.causal = true, .query_offset = -70}},
    {"Window", {.causal = true, .window = 100}},
    {"WindowBothSides", {.window = 20, .window_right = 130}},
    {"WindowDilated", {.causal = true, .window = 100, .window_dilation = 3}},
    {"WindowDilatedWide",
     {.causal = true, .window = 500, .window_right = 20, .window_dilation = 64, .prefix = 9},
     {.global_tokens = {77, 300}}},
    {"Prefix", {.causal = true, .window = 90, .prefix = 70}},
    {"GlobalTokens", {.causal = true, .window = 16}, {.global_tokens = {0, 77, 512}}},
    {"Bias", {.causal = true}, {.bias = true}},
    {"Mask", {.causal = true}, {.mask = true}},
    {"MaskNotCausal", {}, {.mask = true}},
    {"Softcap", {.causal = true, .softcap = 5}},
    {"NegativeScale", {.causal = true, .scale = -0.3f}},
    {"Alibi", {.causal = true}, {.alibi = true}},
    {"Sinks", {.causal = true, .window = 200}, {.sinks = true}},
    {"Norms", {.causal = true}, {.query_norm = true, .key_norm = true}},
    {"Rotary", {.causal = true, .rotary = Rotary{}}},
    {"RotaryOfAPart", {.rotary = Rotary{.dim = 12, .interleaved = true}}},
    {"Everything",
     {.causal = true, .window = 300, .softcap = 30, .rotary = Rotary{.dim = 16}},
     {.shared_bias = true,
      .mask = true,
      .alibi = true,
      .sinks = true,
      .query_norm = true,
      .key_norm = true}},
    {"Gaussian", Of(Similarity::kGaussian, 20, true)},
    {"Box", Of(Similarity::kBox, 6, true)},
    {"Triangular", Of(Similarity::kTriangular, 8, false)},
    {"Linear", Of(Similarity::kLinear, 0, false)},
    {"LinearCausal", Of(Similarity::kLinear, 0, true)},
    {"LinearCausalNormsRotary",
     {.causal = true, .rotary = Rotary{}, .similarity = Similarity::kLinear},
     {.query_norm = true, .key_norm = true}},
    {"Memory", {}, {}, 700},
    {"MemoryCausalMask", {.causal = true}, {.mask = true}, 600},
    {"MemoryLinearCausal", Of(Similarity::kLinear, 0, true), {}, 600},
    {"WiderMemory", {.causal = true, .query_offset = 3}, {}, 130, true},
};

/// More than a key section of 2,048 keys and a page of a cache.
constexpr int64_t kLongLength = 2200;

const ContractKind kLongKinds[] = {
    {"Causal", {.causal = true}, {}, 0, false, kLongLength},
    {"Window", {.causal = true, .window = 2100}, {}, 0, false, kLongLength},
    {"Everything",
     {.causal = true, .softcap = 30, .rotary = Rotary{.dim = 16}},
     {.alibi = true, .sinks = true, .query_norm = true, .key_norm = true},
     0,
     false,
     kLongLength},
};

const ContractWay kWays[] = {
    {"TwoThreads", 2},
    {"FourThreads", 4},
    {"Batched", 2, true},
    {"Streamed", 2, false, 64},
    {"StreamedInWideBlocks", 4, true, 192},
    {"SlicedThin", 2, false, 0, 1},
    {"Sliced", 4, false, 0, kStageRows},
    {"SlicedStreamedBatched", 3, true, 128, kStageRows},
    {"Interrupted", 2, false, 0, 1, true},
    {"AfterACancelledOne", 4, true, 128, kStageRows, false, true},
};

const std::vector<int64_t> kOneCut = {kContractLength};
const std::vector<int64_t> kManyPieces = {1, 1, 62, 1, 64, 130, 281};

const ContractWay kCachedWays[] = {
    {"CachedInPieces", 1, false, 0, 0, false, false, kManyPieces},
    {"CachedByBlocks", 2, false, 0, 0, false, false, {256, 1, 283}},
    {"CachedInPiecesBatched", 2, true, 0, 0, false, false, kManyPieces},
    {"CachedStreamed", 2, false, 64, 0, false, false, {3, 537}},
    {"CachedSliced", 4, false, 0, kStageRows, false, false, kOneCut},
    {"CachedSlicedStreamedBatched", 3, true, 128, kStageRows, false, false, {65, 475}},
    {"CachedInterrupted", 2, false, 0, 1, true, false, {130, 410}},
    {"CachedAfterACancelledOne", 2, true, 128, 1, false, true, {130, 410}},
};

/// The last steps of one row, few rows and many rows attend to keys of two sections.
const ContractWay kLongWays[] = {
    {"CachedInPieces", 4, false, 0, 0, false, false, {1900, 147, 1, 3, 64, 84, 1}},
    {"CachedInPiecesBatched", 2, true, 0, 0, false, false, {2047, 1, 1, 150, 1}},
    {"CachedSlicedStreamedBatched", 3, true, 128, kStageRows, false, false, {2100, 100}},
};

class LayerContractTest : public ::testing::TestWithParam<std::tuple<WeightsDtype, ContractKind>> {
 protected:
  const ContractKind& kind() const { return std::get<1>(GetParam()); }
  ContractSubject subject_{std::get<1>(GetParam()), std::get<0>(GetParam())};
};

INSTANTIATE_TEST_SUITE_P(All, LayerContractTest,
                         ::testing::Combine(::testing::Values(WeightsDtype::kF32,
                                                              WeightsDtype::kBf16),
                                            ::testing::ValuesIn(kKinds)),
                         [](const auto& p) {
                           return std::string(Name(std::get<0>(p.param))) + "_" +
                                  std::get<1>(p.param).name;
                         });

TEST_P(LayerContractTest, EveryWayGivesTheSameBits) {
  const ContractAnswer expected = subject_.Compute({"Alone"});
  for (const ContractWay& way : kWays) {
    const ContractAnswer actual = subject_.Compute(way);
    EXPECT_TRUE(actual.output == expected.output) << kind().name << " x " << way.name;
    EXPECT_TRUE(actual.weights == expected.weights) << kind().name << " x " << way.name;
    EXPECT_TRUE(actual.log_sum_exp == expected.log_sum_exp) << kind().name << " x " << way.name;
  }
}

std::vector<ContractKind> KindsWithACache() {
  std::vector<ContractKind> kinds;
  std::ranges::copy_if(kKinds, std::back_inserter(kinds), &ContractKind::takes_a_cache);
  return kinds;
}

class CacheContractTest : public LayerContractTest {};

INSTANTIATE_TEST_SUITE_P(All, CacheContractTest,
                         ::testing::Combine(::testing::Values(WeightsDtype::kF32,
                                                              WeightsDtype::kBf16),
                                            ::testing::ValuesIn(KindsWithACache())),
                         [](const auto& p) {
                           return std::string(Name(std::get<0>(p.param))) + "_" +
                                  std::get<1>(p.param).name;
                         });

TEST_P(CacheContractTest, EveryWayToFillACacheGivesTheSameBits) {
  const std::pair<const char*, Storage> storages[] = {
      {"F32", Storage::kF32}, {"Bf16", Storage::kBf16}, {"Int8", Storage::kInt8}};
  for (const auto& [name, storage] : storages) {
    const ContractAnswer expected =
        storage == Storage::kF32 && subject_.layer().compute() == Dtype::kF32
            ? subject_.Compute({"Alone"})
            : subject_.Compute({"Alone", 1, false, 0, 0, false, false, kOneCut}, storage);
    for (const ContractWay& way : kCachedWays) {
      EXPECT_TRUE(subject_.Compute(way, storage).output == expected.output)
          << kind().name << " x " << way.name << name;
    }
  }
}

class LongCacheContractTest : public LayerContractTest {};

INSTANTIATE_TEST_SUITE_P(All, LongCacheContractTest,
                         ::testing::Combine(::testing::Values(WeightsDtype::kF32,
                                                              WeightsDtype::kBf16),
                                            ::testing::ValuesIn(kLongKinds)),
                         [](const auto& p) {
                           return std::string(Name(std::get<0>(p.param))) + "_" +
                                  std::get<1>(p.param).name;
                         });

TEST_P(LongCacheContractTest, EveryWayToFillACacheGivesTheSameBits) {
  for (const Storage storage : {Storage::kF32, Storage::kBf16, Storage::kInt8}) {
    const ContractAnswer expected =
        subject_.Compute({"AtOnce", 1, false, 0, 0, false, false, {kLongLength}}, storage);
    for (const ContractWay& way : kLongWays) {
      EXPECT_TRUE(subject_.Compute(way, storage).output == expected.output)
          << kind().name << " x " << way.name << ", storage " << static_cast<int>(storage);
    }
  }
}

// Lengths whose last slice has room for two pieces, which must not be computed side by side: long
// ones, so that threads would meet.
TEST(LongLinearContractTest, SlicesOfACausalSequenceFollowEachOther) {
  const TestLayer layer({64, 64, 4, 1, 64, 64}, Dtype::kF32);
  ThreadPool pool(2);
  Workspace workspace(pool);
  for (int64_t length = 2316; length <= 2354; length += 2) {
    Batch whole(layer, Dtype::kF32, {length}, /*causal=*/true);
    Batch sliced(layer, Dtype::kF32, {length}, /*causal=*/true);
    whole.sequences[0].options.similarity = Similarity::kLinear;
    sliced.sequences[0].options.similarity = Similarity::kLinear;
    ASSERT_THAT(whole.Run(workspace, {}), IsOk());
    ASSERT_THAT(sliced.Run(workspace, {.yield = [] { return true; }}), IsOk());
    ASSERT_TRUE(Bytes(sliced.output) == Bytes(whole.output)) << length << " rows";
  }
}

}  // namespace
}  // namespace attention
