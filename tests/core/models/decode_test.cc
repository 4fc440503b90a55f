// Stacks against caches: sequences that grow in steps end as they do at once.
#include <algorithm>
#include <cctype>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/runtime/round_up.h"
#include "core/tensor/seeded.h"
#include "gtest/gtest.h"
#include "tests/core/models/loaded_model.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::Eq;
using ::testing::HasSubstr;
constexpr auto kF32 = KeyValueStorage::kF32;

/// Sequences of a stack: token ids, and where their outputs go.
struct CachedPart {
  std::span<const int32_t> ids;
  int64_t first_position = 0;
  float* output = nullptr;
  std::span<KvCache> caches = {};
};

class DecodeTest : public ::testing::TestWithParam<std::string> {
 protected:
  explicit DecodeTest(WeightsDtype weights = WeightsDtype::kF32)
      : loaded_(GetParam(), weights), model_(loaded_.model()) {
    const int64_t length = std::min(kLength, model_.info().max_positions.value_or(kLength));
    for (int64_t i = 0; i < length && model_.info().vocab_size > 0; ++i) {
      ids_.push_back(static_cast<int32_t>((i * i * 7 + 3 * i + 1) % model_.info().vocab_size));
    }
    wanted_ = model_.info().has_logits ? ModelOutput::kLogits : ModelOutput::kHiddenStates;
  }

  bool decodes() const { return !ids_.empty() && model_.MakeCaches(kF32, nullptr).ok(); }
  int64_t length() const { return std::ssize(ids_); }
  int64_t width() const { return model_.OutputOf(wanted_, 1).width; }
  /// The least first step after which the rotations stay as they are.
  int64_t FirstStep() const {
    int64_t first = 1;
    while (!model_.CheckGrowth(first, length() - first).ok()) {
      ++first;
    }
    return first;
  }

  void Run(const std::vector<CachedPart>& parts, int num_threads = 1) const {
    const int64_t d_model = model_.info().d_model;
    std::vector<float> rows;
    std::vector<ModelSequence> sequences;
    for (const CachedPart& part : parts) {
      const auto first = std::ssize(rows) / d_model;
      const auto count = std::ssize(part.ids);
      const TokenSequence tokens{.ids = part.ids, .first_position = part.first_position};
      ASSERT_THAT(model_.ValidateTokens(tokens), IsOk());
      rows.resize(rows.size() + count * d_model);
      model_.Embed(tokens, &rows[first * d_model]);
      sequences.push_back({.first_row = first,
                           .seq_len = count,
                           .wanted = wanted_,
                           .output = {part.output, Dtype::kF32, count, width(), width()},
                           .caches = part.caches});
    }
    ThreadPool pool(num_threads);
    Workspace workspace(pool);
    const auto total = std::ssize(rows) / d_model;
    ASSERT_THAT(
        model_.Forward({.hidden_states = {rows.data(), Dtype::kF32, total, d_model, d_model},
                        .sequences = sequences},
                       workspace),
        IsOk());
  }

  std::vector<float> OneShot() const {
    std::vector<float> output(length() * width());
    Run({{ids_, 0, output.data()}});
    return output;
  }

  std::vector<float> InSteps(const std::vector<int64_t>& cut, int num_threads,
                             bool has_mates) const {
    std::vector<float> output(length() * width());
    std::vector<float> ignored(length() * width());
    std::vector<KvCache> caches = *model_.MakeCaches(kF32, nullptr);
    int64_t done = 0;
    for (const int64_t step : cut) {
      const std::span<const int32_t> all(ids_);
      const CachedPart part{all.subspan(done, step), done, &output[done * width()], caches};
      const CachedPart mate{all.first(std::min<int64_t>(5, length())), 0, ignored.data()};
      Run(has_mates ? std::vector<CachedPart>{mate, part, mate} : std::vector<CachedPart>{part},
          num_threads);
      done += step;
    }
    EXPECT_EQ(done, length());
    return output;
  }

  static constexpr int64_t kLength = 90;
  LoadedTestModel loaded_;
  const Model& model_;
  std::vector<int32_t> ids_;
  ModelOutput wanted_;
};

TEST_P(DecodeTest, StepsEndAsOneShotBitForBit) {
  if (!decodes()) {
    GTEST_SKIP() << "the model has no caches";
  }
  const std::vector<float> expected = OneShot();
  const int64_t first = FirstStep();
  const int64_t rest = length() - first;
  EXPECT_EQ(InSteps({length()}, 1, false), expected);
  EXPECT_EQ(InSteps({first, rest / 2, rest - rest / 2}, 2, true), expected);
  std::vector<int64_t> ones(rest + 1, 1);
  ones[0] = first;
  EXPECT_EQ(InSteps(ones, 1, false), expected);
  EXPECT_EQ(InSteps(ones, 1, true), expected);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, DecodeTest, ::testing::ValuesIn(TestCheckpoints()),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace_if(
                               name.begin(), name.end(),
                               [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

class RoundedDecodeTest : public DecodeTest {
 protected:
  RoundedDecodeTest() : DecodeTest(WeightsDtype::kInt8) {}
};

TEST_P(RoundedDecodeTest, TheCutAndBatchMatesDoNotMatter) {
  const std::vector<float> expected = InSteps({length()}, 1, false);
  EXPECT_EQ(InSteps(std::vector<int64_t>(length(), 1), 1, true), expected);
  EXPECT_EQ(InSteps({3, length() - 4, 1}, 2, true), expected);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, RoundedDecodeTest,
                         ::testing::Values("models/gpt2", "models/llama", "models/gemma2"),
                         [](const auto& test) { return test.param.substr(7); });

TEST(DecodeWeightsTest, RowsOfAStepWeighAllThatIsCached) {
  constexpr int64_t kTokens = 20;
  constexpr int64_t kCached = 13;
  const LoadedTestModel llama("models/llama");
  const int64_t width = llama.info().d_model;
  const Tensor rows = SeededTensor(4, Dtype::kF32, {kTokens, width});
  Tensor hidden(Dtype::kF32, rows.shape());
  ThreadPool pool(1);
  Workspace workspace(pool);
  const WeightsChoice choice{.layers = {1}, .heads = {2, 0}};
  const auto weights_of = [&](int64_t first, int64_t end, std::span<KvCache> caches) {
    const int64_t count = end - first;
    std::vector<float> weights(2 * count * llama.model().NumKeys(1, end, 0));
    const ModelSequence sequence{.seq_len = count,
                                 .output = {hidden.data(), Dtype::kF32, count, width, width},
                                 .weights_choice = &choice,
                                 .weights = {weights.data()},
                                 .caches = caches};
    const MatrixView all{rows.data(), Dtype::kF32, kTokens, width, width};
    EXPECT_THAT(llama.model().Forward(
                    {.hidden_states = SliceRows(all, first, count), .sequences = {&sequence, 1}},
                    workspace),
                IsOk());
    return weights;
  };
  const std::vector<float> whole = weights_of(0, kTokens, {});
  std::vector<KvCache> caches = *llama.model().MakeCaches(kF32, nullptr);
  weights_of(0, kCached, caches);
  const std::vector<float> step = weights_of(kCached, kTokens, caches);
  constexpr int64_t kStep = (kTokens - kCached) * kTokens;
  for (int64_t head = 0; head < 2; ++head) {
    EXPECT_TRUE(std::equal(step.begin() + head * kStep, step.begin() + (head + 1) * kStep,
                           whole.begin() + (head * kTokens + kCached) * kTokens));
  }
}

TEST(MakeCachesTest, ThereIsOneForEachLayerAndTheyShareMemory) {
  const LoadedTestModel llama("models/llama");
  const auto memory = std::make_shared<KvMemory>();
  auto caches = llama.model().MakeCaches(KeyValueStorage::kInt8, memory);
  ASSERT_THAT(caches, IsOk());
  ASSERT_EQ(caches->size(), llama.info().layers.size());
  for (KvCache& cache : *caches) {
    EXPECT_EQ(cache.shape().num_kv_heads, llama.info().layers[0].shape.num_kv_heads);
    ASSERT_THAT(cache.Reserve(1), IsOk());
  }
  EXPECT_EQ(memory->used_bytes(), caches->size() * caches->front().size_bytes());
}

TEST(MakeCachesTest, RefusesModelsWhoseRowsSeeMore) {
  const auto error = [](const char* folder) {
    return LoadedTestModel(folder).model().MakeCaches(kF32, nullptr).status();
  };
  EXPECT_THAT(
      error("models/torch_mha-all"),
      StatusIs(kInvalid, Eq("model m: caches: expected a stack of layers, found one layer")));
  EXPECT_THAT(
      error("models/torch_transformer"),
      StatusIs(kInvalid, Eq("model m: caches: expected a decoder alone, found an encoder")));
  EXPECT_THAT(error("models/bert"),
              StatusIs(kInvalid,
                       Eq("model m: caches: expected causal layers, found layer 0, which is not")));
}

TEST(MakeLayerCacheTest, NamesTheLayerThatHasNone) {
  const LoadedTestModel transformer("models/torch_transformer");
  const ModelInfo& info = transformer.info();
  for (int64_t i = 0; i < std::ssize(info.layers); ++i) {
    const auto cache = transformer.model().MakeLayerCache(i, kF32, nullptr);
    EXPECT_EQ(cache.ok(), !info.layers[i].is_cross) << i;
    if (!cache.ok()) {
      EXPECT_THAT(cache, StatusIs(kInvalid, HasSubstr("cache: expected self-attention, found "
                                                      "cross-attention")));
    }
  }
  EXPECT_THAT(LoadedTestModel("models/torch_mha-bias-kv").model().MakeLayerCache(0, kF32, nullptr),
              StatusIs(kInvalid, Eq("model m: layer 0: cache: expected a layer without extra keys, "
                                    "found 1")));
}

TEST(CheckGrowthTest, LongRopeIsBegunAnewWhereItsFrequenciesChange) {
  const LoadedTestModel phi3("models/phi3-longrope");
  EXPECT_THAT(phi3.model().CheckGrowth(0, 40), IsOk());
  EXPECT_THAT(phi3.model().CheckGrowth(11, 1), IsOk());
  EXPECT_THAT(phi3.model().CheckGrowth(13, 20), IsOk());
  EXPECT_THAT(
      phi3.model().CheckGrowth(12, 1),
      StatusIs(kInvalid,
               Eq("model m: its rotations change beyond 12 tokens: expected a sequence that "
                  "stays within them or starts again, found one of 12 cached tokens and 1 "
                  "more")));
  EXPECT_THAT(LoadedTestModel("models/phi3").model().CheckGrowth(12, 1000), IsOk());
}

TEST(CheckGrowthTest, DynamicRotationsEndWhereTheyStandForNoLongerSequence) {
  const LoadedTestModel dynamic("models/llama-rope-dynamic");
  EXPECT_THAT(dynamic.model().CheckGrowth(0, 64), IsOk());
  EXPECT_THAT(dynamic.model().CheckGrowth(63, 1), IsOk());
  for (const auto& [cached_len, new_tokens] :
       {std::pair(0, 65), std::pair(64, 1), std::pair(1, 64)}) {
    EXPECT_THAT(dynamic.model().CheckGrowth(cached_len, new_tokens),
                StatusIs(kInvalid, Eq("model m: expected at most 64 positions, for which its "
                                      "rotations are valid, found a sequence that ends at 65")));
  }
  EXPECT_THAT(LoadedTestModel("models/llama-rope-linear").model().CheckGrowth(0, 1000), IsOk());
}

TEST(FlopsTest, CountsEveryProduct) {
  const LoadedTestModel llama("models/llama");
  const ModelInfo& info = llama.info();
  const MultiHeadAttentionShape& s = info.layers[0].shape;
  const auto padded = [](int64_t width) { return RoundUp(width, 16); };
  const double pair =
      2.0 * static_cast<double>(s.num_heads * (padded(s.head_dim) + padded(s.value_head_dim)));
  const auto layers = static_cast<double>(info.layers.size());
  const Model& model = llama.model();
  EXPECT_EQ(model.Flops(0, 10, 0), 10 * pair * layers);
  EXPECT_EQ(model.Flops(0, 0, 3), 6.0 * static_cast<double>(info.d_model * info.vocab_size));
  double per_row = 0;
  for (int64_t i = 0; i < std::ssize(info.layers); ++i) {
    per_row += model.layer(i).Flops(1, 0);
  }
  EXPECT_EQ(model.layer(0).Flops(1, 0),
            2.0 * static_cast<double>(s.d_model * (2 * s.num_heads * s.head_dim +
                                                   2 * s.num_kv_heads * s.head_dim)));
  EXPECT_GT(model.Flops(1, 0, 0), per_row);
  EXPECT_EQ(model.Flops(7, 0, 0), 7 * model.Flops(1, 0, 0));
}

}  // namespace
}  // namespace attention
