// Layers with extra keys (bias_k, add_zero_attn): every row attends to them, whatever hides the
// other keys from it.
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/core/layers/test_layer.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

constexpr int64_t kNumHeads = 2;
constexpr int64_t kHeadDim = 16;
constexpr int64_t kModelWidth = kNumHeads * kHeadDim;
constexpr int64_t kExtraKeys = 2;

struct ExtraKeysCase {
  std::string name;
  AttentionOptions options;
  bool with_mask = false;
};

void PrintTo(const ExtraKeysCase& row, std::ostream* out) { *out << row.name; }

const ExtraKeysCase kExtraKeysCases[] = {
    {"Plain", {}},
    {"Causal", {.causal = true}},
    {"Mask", {.causal = true}, true},
    {"Window", {.causal = true, .window = 9}},
    {"WindowBothSides", {.window = 9, .window_right = 5}},
    {"WindowDilated", {.causal = true, .window = 30, .window_dilation = 3}},
    {"Prefix", {.causal = true, .window = 9, .prefix = 7}},
    {"RowsAtThePositionsOfExtraKeys", {.causal = true, .query_offset = 1, .window = 9}},
    {"DilatedRowsAtThePositionsOfExtraKeys",
     {.query_offset = 1, .window = 9, .window_dilation = 2}},
    {"RowsBeyondTheExtraKeys", {.query_offset = 40, .window = 60}},
    {"RowsBeforeAllKeys", {.causal = true, .query_offset = -80}},
    {"Gaussian", {.causal = true, .similarity = Similarity::kGaussian, .bandwidth = 20}},
    {"Linear", {.similarity = Similarity::kLinear}},
    {"LinearCausal", {.causal = true, .similarity = Similarity::kLinear}},
    {"LinearCausalOffset", {.causal = true, .query_offset = -3, .similarity = Similarity::kLinear}},
};

class ExtraKeysTest : public ::testing::TestWithParam<ExtraKeysCase> {
 protected:
  /// A layer whose linear maps change nothing.
  static std::unique_ptr<MultiHeadAttention> MakeLayer(const std::vector<float>& extra_key,
                                                       const std::vector<float>& extra_value) {
    std::vector<float> identity(kModelWidth * kModelWidth);
    for (int64_t i = 0; i < kModelWidth; ++i) {
      identity[i * kModelWidth + i] = 1;
    }
    const LinearWeights weights{.data = identity.data()};
    return *MultiHeadAttention::Create(
        {kModelWidth, kModelWidth, kNumHeads, kNumHeads, kHeadDim, kHeadDim},
        {.query = weights,
         .key = weights,
         .value = weights,
         .output = weights,
         .extra_key = extra_key,
         .extra_value = extra_value,
         .has_zero_key = true},
        WeightsDtype::kF32);
  }
};

INSTANTIATE_TEST_SUITE_P(All, ExtraKeysTest, ::testing::ValuesIn(kExtraKeysCases),
                         [](const auto& p) { return p.param.name; });

TEST_P(ExtraKeysTest, EveryRowAttendsToThem) {
  constexpr int64_t kLen = 127;  // the extra keys lie in two key blocks
  const Tensor hidden = SeededTensor(1, Dtype::kF32, {kLen, kModelWidth});
  const Tensor extra = SeededTensor(2, Dtype::kF32, {2, kModelWidth});
  const std::vector<float> extra_key(extra.as<float>(), extra.as<float>() + kModelWidth);
  const std::vector<float> extra_value(extra.as<float>() + kModelWidth,
                                       extra.as<float>() + 2 * kModelWidth);
  const std::unique_ptr<MultiHeadAttention> layer = MakeLayer(extra_key, extra_value);

  AttentionOptions options = GetParam().options;
  std::vector<uint8_t> given_mask;
  for (int64_t i = 0; i < kLen * kLen; ++i) {
    given_mask.push_back(i % 7 < 4 ? 1 : 0);
  }
  if (GetParam().with_mask) {
    options.mask = {given_mask.data(), 0, kLen};
  }

  // The reference hides keys by a mask alone.
  const reference::Extents own{kLen, kLen, kNumHeads, kNumHeads, kHeadDim, kHeadDim};
  const reference::Options rules = ReferenceOptions(options, own);
  constexpr int64_t kKeys = kLen + kExtraKeys;
  reference::Options only_mask{
      .query_offset = 0, .similarity = rules.similarity, .bandwidth = rules.bandwidth};
  for (int64_t row = 0; row < kLen; ++row) {
    for (int64_t key = 0; key < kKeys; ++key) {
      const bool is_visible = key >= kLen || reference::AttendsTo(own, rules, 0, row, key);
      only_mask.mask.push_back(is_visible ? 1 : 0);
    }
  }
  const std::vector<double> rows = ToDoubles(hidden);
  std::vector<double> keys = rows;
  keys.insert(keys.end(), extra_key.begin(), extra_key.end());
  keys.resize(kKeys * kModelWidth);
  std::vector<double> values = rows;
  values.insert(values.end(), extra_value.begin(), extra_value.end());
  values.resize(kKeys * kModelWidth);
  const reference::AttentionResult expected = reference::Attention(
      {kLen, kKeys, kNumHeads, kNumHeads, kHeadDim, kHeadDim}, rows, keys, values, only_mask);

  const auto run = [&](int num_threads, const RowsCallback& on_rows, Tensor& output,
                       Tensor& weights) {
    const LayerSequence sequence{
        .query_len = kLen,
        .output = {output.data(), Dtype::kF32, kLen, kModelWidth, kModelWidth},
        .weights = weights.as<float>(),
        .options = options};
    ThreadPool pool(num_threads);
    Workspace workspace(pool);
    ASSERT_THAT(layer->Run({.hidden_states = View(hidden),
                            .sequences = {&sequence, 1},
                            .on_rows = on_rows,
                            .block_rows = 64},
                           workspace),
                IsOk());
  };
  Tensor output(Dtype::kF32, {kLen, kModelWidth});
  Tensor weights(Dtype::kF32, {kNumHeads, kLen, kKeys});
  run(2, nullptr, output, weights);
  EXPECT_LE(reference::RelativeL2(ToDoubles(output), expected.output), 1e-6);
  EXPECT_LE(reference::RelativeL2(ToDoubles(weights), expected.weights), 1e-6);
  Tensor streamed(Dtype::kF32, {kLen, kModelWidth});
  Tensor streamed_weights(Dtype::kF32, {kNumHeads, kLen, kKeys});
  run(1, [](const RowRange&) { return true; }, streamed, streamed_weights);
  EXPECT_EQ(Bytes(streamed), Bytes(output));
  EXPECT_EQ(Bytes(streamed_weights), Bytes(weights));
}

TEST(ExtraKeyValuesTest, AnInfiniteExtraValueIsNotMultipliedByZero) {
  // The extra key lies in the key block of the last rows. Output channels are sums of all elements.
  constexpr int64_t kLen = 100;
  std::vector<float> identity(kModelWidth * kModelWidth);
  for (int64_t i = 0; i < kModelWidth; ++i) {
    identity[i * kModelWidth + i] = 1;
  }
  const std::vector<float> ones(kModelWidth * kModelWidth, 1.0f);
  std::vector<float> extra_key(kModelWidth, 0.5f), extra_value(kModelWidth, 0.25f);
  extra_value[3] = std::numeric_limits<float>::infinity();
  const auto layer = MultiHeadAttention::Create(
      {kModelWidth, kModelWidth, kNumHeads, kNumHeads, kHeadDim, kHeadDim},
      {.query = {.data = identity.data()},
       .key = {.data = identity.data()},
       .value = {.data = identity.data()},
       .output = {.data = ones.data()},
       .extra_key = extra_key,
       .extra_value = extra_value},
      WeightsDtype::kF32);
  ASSERT_THAT(layer, IsOk());
  const Tensor hidden = SeededTensor(1, Dtype::kF32, {kLen, kModelWidth});
  for (const Similarity similarity : {Similarity::kDotProduct, Similarity::kLinear}) {
    Tensor output(Dtype::kF32, {kLen, kModelWidth});
    const LayerSequence sequence{
        .query_len = kLen,
        .output = {output.data(), Dtype::kF32, kLen, kModelWidth, kModelWidth},
        .options = {.causal = true, .similarity = similarity}};
    ThreadPool pool(1);
    Workspace workspace(pool);
    ASSERT_THAT(
        (*layer)->Run({.hidden_states = View(hidden), .sequences = {&sequence, 1}}, workspace),
        IsOk());
    for (int64_t i = 0; i < output.num_elements(); ++i) {
      ASSERT_EQ(output.as<float>()[i], std::numeric_limits<float>::infinity())
          << i / kModelWidth << " " << static_cast<int>(similarity);
    }
  }
}

}  // namespace
}  // namespace attention
