// Layer calls that ask between slices whether to continue.
#include <algorithm>
#include <string>
#include <vector>

#include "core/layers/multi_head_attention.h"
#include "core/layers/rows_per_slice.h"
#include "gtest/gtest.h"
#include "tests/core/layers/test_layer.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

/// What is sliced: some giga-operations each.
struct Case {
  std::string name;
  MultiHeadAttentionShape shape;
  std::vector<int64_t> lengths;
  bool causal = true;  // every second sequence
  std::vector<int64_t> memory_lengths = {};
  WeightsDtype weights = WeightsDtype::kF32;
  Dtype rows = Dtype::kF32;
};

const Case kCases[] = {
    {"Causal", {512, 512, 8, 8, 64, 64}, {1, 600, 70, 400, 129, 7}},
    {"NotCausal", {512, 512, 8, 8, 64, 64}, {900, 33}, false},
    {"Grouped", {512, 512, 8, 2, 64, 32}, {900, 1, 800}},
    {"Bf16", {512, 512, 8, 8, 64, 64}, {1, 600, 500}, true, {}, WeightsDtype::kBf16, Dtype::kBf16},
    {"Int8", {512, 512, 8, 8, 64, 64}, {600, 500}, true, {}, WeightsDtype::kInt8},
    {"Memory", {512, 512, 8, 8, 64, 64}, {100, 1, 30}, false, {1500, 0, 333}},
    {"WiderMemory", {256, 640, 8, 8, 64, 64}, {300, 3}, false, {1200, 700}},
};

class SlicedLayerTest : public ::testing::TestWithParam<Case> {
 protected:
  SlicedLayerTest() : layer_(GetParam().shape, GetParam().weights) {}

  Batch MakeBatch() const {
    const Case& c = GetParam();
    return Batch(layer_, c.rows, c.lengths, c.causal, c.memory_lengths);
  }

  /// By the keys that a row may see at most.
  double Flops() const {
    double flops = 0;
    for (size_t i = 0; i < GetParam().lengths.size(); ++i) {
      const int64_t rows = GetParam().lengths[i];
      const int64_t memory = GetParam().memory_lengths.empty() ? 0 : GetParam().memory_lengths[i];
      const int64_t keys = GetParam().memory_lengths.empty() ? rows : memory;
      flops += layer_.layer->Flops(rows, static_cast<double>(rows * keys), memory);
    }
    return flops;
  }

  TestLayer layer_;
  ThreadPool pool_{1};
  Workspace workspace_{pool_};
};

INSTANTIATE_TEST_SUITE_P(All, SlicedLayerTest, ::testing::ValuesIn(kCases),
                         [](const auto& p) { return p.param.name; });

TEST_P(SlicedLayerTest, IsAskedAfterEverySliceAndChangesNoBit) {
  Batch whole = MakeBatch();
  ASSERT_THAT(whole.Run(workspace_, {}), IsOk());
  Batch sliced = MakeBatch();
  int asked = 0;
  const auto yield = [&] { return ++asked > 0; };
  ASSERT_THAT(sliced.Run(workspace_, {.yield = yield}), IsOk());
  EXPECT_EQ(Bytes(sliced.output), Bytes(whole.output));
  EXPECT_GT(Flops(), 2 * kSliceFlops);
  EXPECT_GE(asked, Flops() / kSliceFlops);
}

TEST_P(SlicedLayerTest, RowBlocksAndThreadsBesideItChangeNoBit) {
  Batch whole = MakeBatch();
  ASSERT_THAT(whole.Run(workspace_, {}), IsOk());
  ThreadPool three(3);
  Workspace workspace(three);
  Batch sliced = MakeBatch();
  std::vector<int64_t> next_row(GetParam().lengths.size(), 0);
  const auto on_rows = [&](const RowRange& rows) {
    EXPECT_EQ(rows.first_row, next_row[rows.sequence]);
    EXPECT_LE(rows.rows, 192);
    next_row[rows.sequence] += rows.rows;
    return true;
  };
  ASSERT_THAT(
      sliced.Run(workspace, {.on_rows = on_rows, .block_rows = 192, .yield = [] { return true; }}),
      IsOk());
  EXPECT_EQ(next_row, GetParam().lengths);
  EXPECT_EQ(Bytes(sliced.output), Bytes(whole.output));
}

TEST_P(SlicedLayerTest, AnotherComputationMayRunOnThePoolWhenAsked) {
  const TestLayer other_layer({96, 96, 3, 1, 32, 32}, Dtype::kF32);
  Batch whole = MakeBatch();
  ASSERT_THAT(whole.Run(workspace_, {}), IsOk());
  Batch other_whole(other_layer, Dtype::kF32, {90, 3}, /*causal=*/true);
  ASSERT_THAT(other_whole.Run(workspace_, {}), IsOk());
  ThreadPool two(2);
  Workspace workspace(two);
  Workspace other_workspace(two);
  Batch sliced = MakeBatch();
  const auto yield = [&] {
    Batch other(other_layer, Dtype::kF32, {90, 3}, /*causal=*/true);
    EXPECT_THAT(other.Run(other_workspace, {}), IsOk());
    EXPECT_EQ(Bytes(other.output), Bytes(other_whole.output));
    return true;
  };
  ASSERT_THAT(sliced.Run(workspace, {.yield = yield}), IsOk());
  EXPECT_EQ(Bytes(sliced.output), Bytes(whole.output));
}

TEST_P(SlicedLayerTest, NoEndsItAtOnce) {
  for (const int last : {1, 2, 4}) {
    Batch sliced = MakeBatch();
    int asked = 0;
    EXPECT_THAT(sliced.Run(workspace_, {.yield = [&] { return ++asked < last; }}),
                StatusIs(absl::StatusCode::kCancelled, ::testing::Eq("cancelled between slices")));
    EXPECT_EQ(asked, last);
  }
}

TEST(SlicedCachedLayerTest, ATruncatedCacheForgetsACancelledCall) {
  const TestLayer layer({512, 512, 8, 8, 64, 64}, Dtype::kF32);
  ThreadPool pool(1);
  Workspace workspace(pool);
  Batch whole(layer, Dtype::kF32, {40, 1000}, /*causal=*/true);
  whole.sequences[1].options.causal = true;
  ASSERT_THAT(whole.Run(workspace, {}), IsOk());
  KvCache cache = *KvCache::Create(*layer.layer->CacheShape(KeyValueStorage::kF32));
  for (const int last : {1, 2, 5}) {
    Batch cancelled(layer, Dtype::kF32, {7, 1033}, /*causal=*/true);
    cancelled.sequences[1].cache = &cache;
    int asked = 0;
    EXPECT_THAT(cancelled.Run(workspace, {.yield = [&] { return ++asked < last; }}),
                StatusIs(absl::StatusCode::kCancelled, ::testing::_));
    EXPECT_EQ(cache.length() > 0, last > 1);
    ASSERT_THAT(cache.Truncate(0), IsOk());
  }
  Batch again(layer, Dtype::kF32, {40, 1000}, /*causal=*/true);
  again.sequences[1].options.causal = true;
  again.sequences[1].cache = &cache;
  int asked = 0;
  ASSERT_THAT(again.Run(workspace, {.yield = [&] { return ++asked > 0; }}), IsOk());
  EXPECT_GE(asked, 4);
  EXPECT_EQ(Bytes(again.output), Bytes(whole.output));
}

TEST(SlicedCachedLayerTest, ALongCacheIsMoreWork) {
  const TestLayer layer({64, 64, 2, 2, 32, 32}, Dtype::kF32);
  ThreadPool pool(1);
  Workspace workspace(pool);
  KvCache cache = *KvCache::Create(*layer.layer->CacheShape(KeyValueStorage::kF32));
  Batch prefill(layer, Dtype::kF32, {20000}, /*causal=*/true);
  prefill.sequences[0].cache = &cache;
  prefill.sequences[0].options.window = 64;
  ASSERT_THAT(prefill.Run(workspace, {}), IsOk());
  Batch step(layer, Dtype::kF32, {640}, /*causal=*/true);
  step.sequences[0].cache = &cache;
  int asked = 0;
  ASSERT_THAT(step.Run(workspace, {.yield = [&] { return ++asked > 0; }}), IsOk());
  EXPECT_GE(asked, layer.layer->Flops(640, 640.0 * 20640) / kSliceFlops);
}

TEST(SlicedWindowTest, RowsThatAttendToFewKeysAreFewSlices) {
  const TestLayer layer({64, 64, 2, 2, 32, 32}, Dtype::kF32);
  ThreadPool pool(1);
  Workspace workspace(pool);
  const AttentionOptions cases[] = {{.causal = true, .window = 64},
                                    {.causal = true, .window = 64, .prefix = 4},
                                    {.window = 64, .window_right = 9}};
  for (const AttentionOptions& options : cases) {
    Batch batch(layer, Dtype::kF32, {20000}, /*causal=*/false);
    batch.sequences[0].options = options;
    int asked = 0;
    ASSERT_THAT(batch.Run(workspace, {.yield = [&] { return ++asked > 0; }}), IsOk());
    EXPECT_LE(asked, 3) << "prefix " << options.prefix;
  }
}

}  // namespace
}  // namespace attention
