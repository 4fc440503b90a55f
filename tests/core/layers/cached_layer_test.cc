// A layer against caches: the rows of a sequence that comes in steps.
#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/layers/multi_head_attention.h"
#include "gtest/gtest.h"
#include "tests/core/layers/test_layer.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::Eq;
using Storage = KeyValueStorage;

struct CachedLayerKind {
  std::string name;
  MultiHeadAttentionShape shape;
  AttentionOptions options;
  bool has_norms = false;
};

const CachedLayerKind kCachedLayerKinds[] = {
    {"Plain", {96, 96, 3, 3, 32, 32}, {.causal = true}},
    {"Grouped", {128, 128, 4, 2, 32, 40}, {.causal = true}},
    {"Rotary",
     {96, 96, 3, 3, 32, 32},
     {.causal = true, .rotary = Rotary{.dim = 16, .base = 500000, .interleaved = true}}},
    {"GroupedNormsRotaryWindow",
     {128, 128, 4, 1, 32, 32},
     {.causal = true, .window = 70, .softcap = 20, .rotary = Rotary{}},
     true},
};

constexpr int64_t kLayerLength = 300;

/// One sequence of a kind, and ways to compute it.
class Decoding {
 public:
  Decoding(const CachedLayerKind& kind, WeightsDtype weights)
      : layer_(kind.shape, weights), input_(Input(1)), options_(kind.options) {
    const Tensor norms = SeededTensor(5, Dtype::kF32, {2, kind.shape.head_dim});
    norms_.assign(norms.as<float>(), norms.as<float>() + norms.num_elements());
    if (kind.has_norms) {
      options_.query_norm = RmsNorm{norms_.data()};
      options_.key_norm = RmsNorm{norms_.data() + kind.shape.head_dim};
    }
  }

  const MultiHeadAttention& layer() const { return *layer_.layer; }

  std::vector<uint8_t> OneShot(int num_threads) const {
    Tensor output(layer().dtype(), input_.shape());
    const LayerSequence all = Rows(input_, output, 0, kLayerLength);
    Run({&all, 1}, View(input_), num_threads);
    return Bytes(output);
  }

  /// In steps of `cut`, alone.
  std::vector<uint8_t> InSteps(const std::vector<int64_t>& cut, Storage storage,
                               int num_threads = 1) const {
    KvCache cache = NewCache(storage);
    Tensor output(layer().dtype(), input_.shape());
    for (const int64_t rows : cut) {
      LayerSequence step = Rows(input_, output, cache.length(), rows);
      const MatrixView step_input = SliceRows(View(input_), cache.length(), rows);
      step.cache = &cache;
      Run({&step, 1}, step_input, num_threads);
    }
    EXPECT_EQ(cache.length(), kLayerLength);
    return Bytes(output);
  }

  /// The same, between an uncached sequence and one with a cache of 8 bits that grows faster.
  std::vector<uint8_t> AmongOthers(const std::vector<int64_t>& cut, Storage storage,
                                   int num_threads) const {
    KvCache cache = NewCache(storage);
    KvCache other = NewCache(Storage::kInt8);
    Tensor output(layer().dtype(), input_.shape());
    const Tensor others = Input(2);
    Tensor other_output(layer().dtype(), input_.shape());
    for (const int64_t rows : cut) {
      const int64_t first = cache.length();
      const int64_t width = layer().shape().d_model;
      Tensor batch(layer().dtype(), {20 + rows + 3, width});
      const auto place = [&](const Tensor& from, int64_t row, int64_t count, int64_t at) {
        std::copy_n(static_cast<const std::byte*>(SliceRows(View(from), row, count).data),
                    count * width * SizeOf(batch.dtype()),
                    static_cast<std::byte*>(batch.data()) + at * width * SizeOf(batch.dtype()));
      };
      place(others, 0, 20, 0);
      place(input_, first, rows, 20);
      place(others, 30, 3, 20 + rows);
      std::vector<LayerSequence> sequences = {Rows(others, other_output, 0, 20),
                                              Rows(input_, output, first, rows),
                                              Rows(others, other_output, 30, 3)};
      sequences[1].cache = &cache;
      sequences[2].cache = &other;
      sequences[1].first_row = 20;
      sequences[2].first_row = 20 + rows;
      Run(sequences, View(batch), num_threads);
    }
    return Bytes(output);
  }

  KvCache NewCache(Storage storage, std::shared_ptr<KvMemory> memory = nullptr) const {
    return *KvCache::Create(*layer().CacheShape(storage), std::move(memory));
  }

 private:
  Tensor Input(uint64_t seed) const {
    return SeededTensor(seed, layer().dtype(), {kLayerLength, layer().shape().d_model});
  }

  LayerSequence Rows(const Tensor& input, Tensor& output, int64_t first, int64_t count) const {
    const int64_t width = input.shape()[1];
    return {.query_len = count,
            .output = {ElementAt(output.data(), output.dtype(), first * width), output.dtype(),
                       count, width, width},
            .options = options_};
  }

  void Run(std::span<const LayerSequence> sequences, const MatrixView& input,
           int num_threads) const {
    ThreadPool pool(num_threads);
    Workspace workspace(pool);
    EXPECT_THAT(layer().Run({.hidden_states = input, .sequences = sequences}, workspace), IsOk());
  }

  TestLayer layer_;
  Tensor input_;
  std::vector<float> norms_;
  AttentionOptions options_;
};

const std::vector<std::vector<int64_t>> kCuts = {
    {300}, {1, 1, 1, 297}, {63, 1, 64, 65, 107}, {130, 100, 3, 1, 66}, {256, 1, 43}};

class CachedLayerTest : public ::testing::TestWithParam<std::tuple<WeightsDtype, CachedLayerKind>> {
 protected:
  CachedLayerTest() : decoding_(std::get<1>(GetParam()), std::get<0>(GetParam())) {}
  Decoding decoding_;
};

INSTANTIATE_TEST_SUITE_P(All, CachedLayerTest,
                         ::testing::Combine(::testing::Values(WeightsDtype::kF32,
                                                              WeightsDtype::kBf16,
                                                              WeightsDtype::kInt8),
                                            ::testing::ValuesIn(kCachedLayerKinds)),
                         [](const auto& p) {
                           return std::string(Name(std::get<0>(p.param))) + "_" +
                                  std::get<1>(p.param).name;
                         });

TEST_P(CachedLayerTest, TheCutDoesNotMatter) {
  for (const Storage storage : {Storage::kF32, Storage::kBf16, Storage::kInt8}) {
    const std::vector<uint8_t> expected = decoding_.InSteps({kLayerLength}, storage);
    for (const std::vector<int64_t>& cut : kCuts) {
      EXPECT_EQ(decoding_.InSteps(cut, storage), expected)
          << "storage " << static_cast<int>(storage) << ", first step " << cut.front();
    }
    EXPECT_EQ(decoding_.InSteps(std::vector<int64_t>(kLayerLength, 1), storage), expected);
  }
}

TEST_P(CachedLayerTest, F32StorageAnswersAsOneShotOfAnF32Row) {
  if (decoding_.layer().compute() == Dtype::kF32) {
    EXPECT_EQ(decoding_.InSteps({63, 1, 64, 65, 107}, Storage::kF32), decoding_.OneShot(2));
  }
}

TEST_P(CachedLayerTest, BatchMatesAndThreadsDoNotMatter) {
  for (const Storage storage : {Storage::kF32, Storage::kBf16}) {
    const std::vector<int64_t> cut = {63, 1, 64, 65, 107};
    const std::vector<uint8_t> expected = decoding_.InSteps(cut, storage);
    EXPECT_EQ(decoding_.InSteps(cut, storage, 3), expected);
    EXPECT_EQ(decoding_.AmongOthers(cut, storage, 1), expected);
    EXPECT_EQ(decoding_.AmongOthers(cut, storage, 3), expected);
  }
}

TEST(CachedLayerStreamTest, RowBlocksOfALongStepAreThoseOfOneShot) {
  const TestLayer layer({192, 192, 3, 3, 64, 64}, Dtype::kF32);
  Batch whole(layer, Dtype::kF32, {700, 20}, /*causal=*/true);
  ASSERT_THAT(whole.Run(1), IsOk());
  KvCache cache = *KvCache::Create(*layer.layer->CacheShape(Storage::kF32));
  Batch prefix(layer, Dtype::kF32, {100}, /*causal=*/true);
  prefix.sequences[0].cache = &cache;
  ASSERT_THAT(prefix.Run(2), IsOk());
  Batch rest(layer, Dtype::kF32, {600, 20}, /*causal=*/true);
  std::copy_n(whole.input.as<float>() + 100 * 192, 620 * 192, rest.input.as<float>());
  rest.sequences[0].cache = &cache;
  int64_t next_row = 0;
  const auto on_rows = [&](const RowRange& rows) {
    EXPECT_EQ(rows.first_row, rows.sequence == 0 ? next_row : 0);
    next_row += rows.sequence == 0 ? rows.rows : 0;
    if (next_row < 500) {
      EXPECT_LT(cache.length(), 700) << "later rows are cached when their turn comes";
    }
    return true;
  };
  ASSERT_THAT(rest.Run(2, on_rows, 128), IsOk());
  EXPECT_EQ(next_row, 600);
  EXPECT_EQ(cache.length(), 700);
  EXPECT_TRUE(std::equal(rest.output.as<float>(), rest.output.as<float>() + 620 * 192,
                         whole.output.as<float>() + 100 * 192));
}

TEST(CachedLayerErrorTest, ACacheThatDoesNotFitIsNamed) {
  const TestLayer layer({96, 96, 3, 3, 32, 32}, Dtype::kF32);
  const auto invalid = absl::StatusCode::kInvalidArgument;
  KvCache other = *KvCache::Create({3, 32, 16, Storage::kF32});
  Batch batch(layer, Dtype::kF32, {5, 4}, /*causal=*/true);
  batch.sequences[1].cache = &other;
  EXPECT_THAT(batch.Run(1),
              StatusIs(invalid, Eq("sequence 1: cache: expected 3 key/value heads of "
                                   "32 and 32, found 3 key/value heads of 32 and 16")));
  Batch cross(layer, Dtype::kF32, {5}, /*causal=*/true, {4});
  KvCache cache = *KvCache::Create(*layer.layer->CacheShape(Storage::kF32));
  KvCache second = *KvCache::Create(*layer.layer->CacheShape(Storage::kF32));
  // The same error wherever the caches lie in memory.
  for (const auto& [first_shared, last_shared] :
       {std::pair(&cache, &second), std::pair(&second, &cache)}) {
    Batch shared(layer, Dtype::kF32, {5, 6, 4, 3}, /*causal=*/true);
    shared.sequences[0].cache = shared.sequences[2].cache = first_shared;
    shared.sequences[1].cache = shared.sequences[3].cache = last_shared;
    EXPECT_THAT(
        shared.Run(2),
        StatusIs(invalid,
                 Eq("sequence 2: cache: expected a cache of its own, found that of sequence 0")));
  }
  cross.sequences[0].cache = &cache;
  EXPECT_THAT(cross.Run(1),
              StatusIs(invalid, Eq("sequence 0: cache: expected none beside a memory, found one")));
  Batch linear(layer, Dtype::kF32, {5}, /*causal=*/true);
  linear.sequences[0].cache = &cache;
  linear.sequences[0].options.similarity = Similarity::kLinear;
  EXPECT_THAT(
      linear.Run(1),
      StatusIs(invalid, Eq("sequence 0: cache: expected none with similarity LINEAR, found one")));
  EXPECT_EQ(cache.length(), 0);
}

TEST(CachedLayerErrorTest, LayersWithOtherKeysThanTheirOwnHaveNoCacheShape) {
  const auto invalid = absl::StatusCode::kInvalidArgument;
  const TestLayer wider({64, 100, 2, 2, 32, 32}, Dtype::kF32);
  EXPECT_THAT(
      wider.layer->CacheShape(Storage::kF32),
      StatusIs(invalid, Eq("cache: expected a layer whose keys and values come from rows of "
                           "d_model 64, found d_memory 100 and d_memory_value 100")));
  const std::vector<float> zeros(64 * 64);
  const LinearWeights weights{.data = zeros.data()};
  const auto extra = *MultiHeadAttention::Create(
      {64, 64, 2, 2, 32, 32},
      {.query = weights, .key = weights, .value = weights, .output = weights, .has_zero_key = true},
      WeightsDtype::kF32);
  EXPECT_THAT(extra->CacheShape(Storage::kF32),
              StatusIs(invalid, Eq("cache: expected a layer without extra keys, found 1")));
}

TEST(CachedLayerErrorTest, FullMemoryIsFoundBeforeAnythingIsComputed) {
  const TestLayer layer({96, 96, 3, 3, 32, 32}, Dtype::kF32);
  const KvCacheShape shape = *layer.layer->CacheShape(Storage::kF32);
  const auto memory = std::make_shared<KvMemory>(KvCache::SizeBytes(shape, 64));
  KvCache cache = *KvCache::Create(shape, memory);
  Batch batch(layer, Dtype::kF32, {5, 65}, /*causal=*/true);
  std::fill_n(batch.output.as<float>(), batch.output.num_elements(), 7.0f);
  batch.sequences[1].cache = &cache;
  EXPECT_THAT(batch.Run(2), StatusIs(absl::StatusCode::kResourceExhausted,
                                     ::testing::HasSubstr("expected room for 65 tokens more")));
  EXPECT_EQ(cache.length(), 0);
  EXPECT_EQ(batch.output.as<float>()[0], 7.0f);
}

}  // namespace
}  // namespace attention
