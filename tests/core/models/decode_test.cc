// Stacks against caches: sequences that grow in steps end as they do at once.
#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "core/layers/slices.h"
#include "core/tensor/seeded.h"
#include "gtest/gtest.h"
#include "tests/core/models/loaded_model.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::Eq;
using ::testing::HasSubstr;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kF32 = KeyValueStorage::kF32;

/// Sequences of a stack: token ids, and where their outputs go.
struct Part {
  std::span<const int32_t> ids;
  int64_t first_position = 0;
  float* output = nullptr;
  std::span<KvCache> caches = {};
};

class DecodeTest : public ::testing::TestWithParam<std::string> {
 protected:
  explicit DecodeTest(WeightsDtype weights = WeightsDtype::kF32)
      : loaded_(GetParam(), weights), model_(loaded_.model()) {
    const int64_t most = model_.info().max_positions;
    const int64_t length = most == 0 ? kLength : std::min(kLength, most);
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

  void Run(const std::vector<Part>& parts, int num_threads = 1) const {
    const int64_t d_model = model_.info().d_model;
    std::vector<float> rows;
    std::vector<ModelSequence> sequences;
    for (const Part& part : parts) {
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
      const Part part{all.subspan(done, step), done, &output[done * width()], caches};
      const Part mate{all.first(std::min<int64_t>(5, length())), 0, ignored.data()};
      Run(has_mates ? std::vector<Part>{mate, part, mate} : std::vector<Part>{part}, num_threads);
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
    return;
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
              StatusIs(kInvalid, Eq("model m: layer 0: cache: expected a layer without keys of its "
                                    "own, found 1 extra keys")));
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
                  "stays within them or is begun anew, found one of 12 cached tokens and 1 "
                  "more")));
  EXPECT_THAT(LoadedTestModel("models/phi3").model().CheckGrowth(12, 1000), IsOk());
}

TEST(FlopsTest, CountsEveryProduct) {
  const LoadedTestModel llama("models/llama");
  const ModelInfo& info = llama.info();
  const MultiHeadAttentionShape& s = info.layers[0].shape;
  const double pair = 2.0 * static_cast<double>(s.num_heads * (s.head_dim + s.value_head_dim));
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

/// Many short sequences of a small model of one block: its feed-forward layer is several slices.
class SlicedStackTest : public ::testing::TestWithParam<std::string> {
 protected:
  SlicedStackTest() : loaded_(GetParam()) {
    const int64_t width = loaded_.info().d_model;
    while (loaded_.model().Flops(num_rows_, 0, 0, has_memory() ? num_rows_ : 0) <
           2.5 * kSliceFlops) {
      num_rows_ += 128;
    }
    rows_ = SeededTensor(3, Dtype::kF32, {num_rows_, width});
  }
  bool has_memory() const { return loaded_.info().has_encoder; }

  /// The first rows of the batch, as many as `output` has.
  absl::Status Run(Tensor& output, Workspace& workspace, const std::function<bool()>& go_on) const {
    const int64_t width = loaded_.info().d_model;
    const MatrixView rows{rows_.data(), Dtype::kF32, output.shape()[0], width, width};
    std::vector<ModelSequence> sequences;
    for (int64_t row = 0; row < rows.rows; row += 128) {
      sequences.push_back(
          {.first_row = row,
           .seq_len = 128,
           .first_memory_row = row,
           .memory_len = has_memory() ? 128 : 0,
           .output = {output.as<float>() + row * width, Dtype::kF32, 128, width, width}});
    }
    return loaded_.model().Forward(
        {.hidden_states = rows,
         .memory = has_memory() ? std::optional<MatrixView>(rows) : std::nullopt,
         .sequences = sequences,
         .go_on = go_on},
        workspace);
  }

  LoadedTestModel loaded_;
  int64_t num_rows_ = 0;
  Tensor rows_;
};

TEST_P(SlicedStackTest, IsAskedAfterEverySliceAndChangesNoBit) {
  ThreadPool pool(1);
  Workspace workspace(pool);
  Workspace inner_workspace(pool);
  Tensor whole(Dtype::kF32, rows_.shape());
  ASSERT_THAT(Run(whole, workspace, nullptr), IsOk());
  const auto equals_whole = [&](const Tensor& other) {
    return std::equal(other.as<float>(), other.as<float>() + other.num_elements(),
                      whole.as<float>());
  };
  Tensor sliced(Dtype::kF32, rows_.shape());
  Tensor inner(Dtype::kF32, {256, loaded_.info().d_model});
  int asked = 0;
  const auto go_on = [&] {
    if (++asked == 3) {
      EXPECT_THAT(Run(inner, inner_workspace, nullptr), IsOk());
    }
    return true;
  };
  ASSERT_THAT(Run(sliced, workspace, go_on), IsOk());
  EXPECT_TRUE(equals_whole(sliced));
  EXPECT_TRUE(equals_whole(inner));
  const double flops = loaded_.model().Flops(num_rows_, 128.0 * static_cast<double>(num_rows_), 0,
                                             has_memory() ? num_rows_ : 0);
  EXPECT_GE(asked, flops / kSliceFlops);
  int count = 0;
  EXPECT_THAT(Run(sliced, workspace, [&] { return ++count < 3; }),
              StatusIs(absl::StatusCode::kCancelled, Eq("cancelled between slices")));
  EXPECT_EQ(count, 3);
}

INSTANTIATE_TEST_SUITE_P(Models, SlicedStackTest,
                         ::testing::Values("models/gpt2-unscaled", "models/llama-bias",
                                           "models/torch_transformer-no-bias"),
                         [](const auto& test) {
                           std::string name = test.param.substr(7);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(SlicedLogitsTest, IsAskedForEveryPart) {
  const LoadedTestModel gpt2("models/gpt2");
  const int64_t width = gpt2.info().d_model;
  const int64_t vocab_size = gpt2.info().vocab_size;
  const Tensor rows = SeededTensor(3, Dtype::kF32, {640, width});
  Tensor logits(Dtype::kF32, {640, vocab_size});
  const auto asked_for = [&](ModelOutput wanted) {
    const auto [out_rows, out_width] = gpt2.model().OutputOf(wanted, 640);
    const ModelSequence sequence{
        .seq_len = 640,
        .wanted = wanted,
        .output = {logits.data(), Dtype::kF32, out_rows, out_width, out_width}};
    ThreadPool pool(1);
    Workspace workspace(pool);
    int asked = 0;
    EXPECT_THAT(
        gpt2.model().Forward({.hidden_states = {rows.data(), Dtype::kF32, 640, width, width},
                              .sequences = {&sequence, 1},
                              .go_on = [&] { return ++asked > 0; }},
                             workspace),
        IsOk());
    return asked;
  };
  EXPECT_EQ(asked_for(ModelOutput::kLogits), asked_for(ModelOutput::kHiddenStates) + 10);
}

}  // namespace
}  // namespace attention
