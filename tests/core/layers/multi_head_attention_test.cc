#include "core/layers/multi_head_attention.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "core/reference/reference.h"
#include "gtest/gtest.h"
#include "tests/core/layers/test_layer.h"
#include "tests/support/attention_problem.h"
#include "tests/support/differences.h"
#include "tests/support/golden.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::Eq;

struct Row {
  std::string name;
  MultiHeadAttentionShape
      shape;  // d_model, d_memory, num_heads, num_kv_heads, head_dim, value_head_dim
};

const Row kSameWidthRows[] = {{"Usual", {128, 128, 4, 4, 32, 32}},
                              {"Grouped", {128, 128, 8, 2, 16, 16}},
                              {"FreeWidths", {96, 96, 3, 3, 40, 24}},
                              {"OddModel", {67, 67, 3, 1, 21, 13}},
                              {"Deep", {1100, 1100, 2, 2, 64, 64}}};
const Row kOtherWidthRows[] = {{"WiderMemory", {64, 100, 2, 2, 32, 32}},
                               {"NarrowerMemory", {100, 64, 2, 1, 32, 32}}};

class CrossAttentionTest : public ::testing::TestWithParam<std::tuple<Dtype, Row>> {};
class SelfAttentionTest : public CrossAttentionTest {};

std::string ParamName(const ::testing::TestParamInfo<std::tuple<Dtype, Row>>& p) {
  return std::string(Name(std::get<0>(p.param))) + "_" + std::get<1>(p.param).name;
}

const auto kWeightDtypes = ::testing::Values(Dtype::kF32, Dtype::kBf16);
INSTANTIATE_TEST_SUITE_P(SameWidth, SelfAttentionTest,
                         ::testing::Combine(kWeightDtypes, ::testing::ValuesIn(kSameWidthRows)),
                         ParamName);
INSTANTIATE_TEST_SUITE_P(SameWidth, CrossAttentionTest,
                         ::testing::Combine(kWeightDtypes, ::testing::ValuesIn(kSameWidthRows)),
                         ParamName);
INSTANTIATE_TEST_SUITE_P(OtherWidth, CrossAttentionTest,
                         ::testing::Combine(kWeightDtypes, ::testing::ValuesIn(kOtherWidthRows)),
                         ParamName);

double Tolerance(Dtype dtype) {
  return dtype == Dtype::kF32 ? reference::kLayerToleranceF32 : reference::kLayerToleranceBf16;
}

TEST_P(SelfAttentionTest, AgreesWithTheReference) {
  const auto& [dtype, row] = GetParam();
  const TestLayer layer(row.shape, dtype);
  Batch batch(layer, dtype, {5, 70, 1, 0, 33}, /*causal=*/true);
  ASSERT_THAT(batch.Run(2), IsOk());
  EXPECT_LE(reference::RelativeL2(ToDoubles(batch.output), batch.Expected()), Tolerance(dtype));
}

TEST_P(CrossAttentionTest, AgreesWithTheReference) {
  const auto& [dtype, row] = GetParam();
  const TestLayer layer(row.shape, dtype);
  Batch batch(layer, dtype, {5, 70, 3}, /*causal=*/false, {9, 40, 2});
  ASSERT_THAT(batch.Run(2), IsOk());
  EXPECT_LE(reference::RelativeL2(ToDoubles(batch.output), batch.Expected()), Tolerance(dtype));
}

TEST(LayerTest, AnEmptyMemoryLeavesTheOutputBias) {
  const TestLayer layer({64, 64, 2, 2, 32, 32}, Dtype::kF32);
  Batch batch(layer, Dtype::kF32, {3, 2}, /*causal=*/false, {0, 5});
  ASSERT_THAT(batch.Run(1), IsOk());
  for (int64_t i = 0; i < 3 * 64; ++i) {
    ASSERT_EQ(batch.output.as<float>()[i], layer.weights.output_bias[i % 64]);
  }
}

TEST(LayerTest, SequencesWithoutRowsHaveNoOutput) {
  const TestLayer layer({64, 64, 2, 2, 32, 32}, Dtype::kF32);
  EXPECT_THAT(Batch(layer, Dtype::kF32, {0, 0}, /*causal=*/true).Run(1), IsOk());
  EXPECT_THAT(Batch(layer, Dtype::kF32, {0}, /*causal=*/false, {5}).Run(1), IsOk());
}

class LayerBitsTest : public ::testing::TestWithParam<Dtype> {};
INSTANTIATE_TEST_SUITE_P(All, LayerBitsTest, ::testing::Values(Dtype::kF32, Dtype::kBf16),
                         [](const auto& p) { return std::string(Name(p.param)); });

const MultiHeadAttentionShape kLayerShape{192, 192, 3, 3, 64, 64};
const std::vector<int64_t> kLengths = {70, 1, 300, 64, 129, 7};

TEST_P(LayerBitsTest, ThreadsAndRowBlocksDoNotMatter) {
  const TestLayer layer(kLayerShape, GetParam());
  Batch one(layer, GetParam(), kLengths, /*causal=*/true);
  ASSERT_THAT(one.Run(1), IsOk());
  for (const int64_t block_rows : {64, 100, 128}) {
    Batch streamed(layer, GetParam(), kLengths, /*causal=*/true);
    std::vector<int64_t> next_row(kLengths.size(), 0);
    const auto on_rows = [&](const RowRange& rows) {
      EXPECT_EQ(rows.first_row, next_row[rows.sequence]);
      next_row[rows.sequence] += rows.rows;
      return true;
    };
    ASSERT_THAT(streamed.Run(2, on_rows, block_rows), IsOk());
    EXPECT_EQ(next_row, kLengths);
    EXPECT_EQ(Bytes(streamed.output), Bytes(one.output)) << block_rows;
  }
}

TEST_P(LayerBitsTest, BatchMatesDoNotMatter) {
  const TestLayer layer(kLayerShape, GetParam());
  Batch all(layer, GetParam(), kLengths, /*causal=*/true);
  ASSERT_THAT(all.Run(1), IsOk());
  const std::vector<uint8_t> expected = Bytes(all.output);
  const int64_t row_bytes = 192 * static_cast<int64_t>(SizeOf(GetParam()));
  for (size_t i = 0; i < kLengths.size(); ++i) {
    const LayerSequence& s = all.sequences[i];
    Batch alone(layer, GetParam(), {s.query_len}, /*causal=*/i % 2 == 0);
    std::copy_n(static_cast<const std::byte*>(all.input.data()) + s.first_row * row_bytes,
                s.query_len * row_bytes, static_cast<std::byte*>(alone.input.data()));
    ASSERT_THAT(alone.Run(2), IsOk());
    const std::vector<uint8_t> actual = Bytes(alone.output);
    EXPECT_TRUE(
        std::equal(actual.begin(), actual.end(), expected.begin() + s.first_row * row_bytes))
        << "sequence " << i;
  }
}

TEST_P(LayerBitsTest, DeepProjectionsKeepTheContractToo) {
  // A depth at which oneDNN's matmul primitive blocks one row differently from many.
  const TestLayer layer({4096, 4096, 1, 1, 64, 64}, GetParam());
  Batch many(layer, GetParam(), {40}, /*causal=*/true);
  ASSERT_THAT(many.Run(1), IsOk());
  Batch one(layer, GetParam(), {1}, /*causal=*/true);
  const size_t row_bytes = 4096 * SizeOf(GetParam());
  std::copy_n(static_cast<const std::byte*>(many.input.data()), row_bytes,
              static_cast<std::byte*>(one.input.data()));
  ASSERT_THAT(one.Run(1), IsOk());
  const auto first_row = Bytes(one.output);
  EXPECT_TRUE(std::equal(first_row.begin(), first_row.end(), Bytes(many.output).begin()));
}

TEST(LayerStreamTest, FirstBlockOfACausalSequenceDoesNotWaitForLaterRows) {
  const TestLayer layer(kLayerShape, Dtype::kF32);
  Batch whole(layer, Dtype::kF32, {640}, /*causal=*/true);
  ASSERT_THAT(whole.Run(1), IsOk());
  Batch streamed(layer, Dtype::kF32, {640}, /*causal=*/true);
  // Rows that have not been projected yet may still change: only the first block's may not.
  const auto spoil_the_rest = [&](const RowRange& rows) {
    const int64_t next = rows.first_row + rows.rows;
    std::fill_n(streamed.input.as<float>() + next * 192, (640 - next) * 192, 0.0f);
    return false;
  };
  EXPECT_THAT(streamed.Run(1, spoil_the_rest, 128),
              StatusIs(absl::StatusCode::kCancelled, ::testing::_));
  EXPECT_TRUE(std::equal(streamed.output.as<float>(), streamed.output.as<float>() + 128 * 192,
                         whole.output.as<float>()));
}

TEST(LayerCreateTest, NamesTheExtentThatIsWrong) {
  const auto create = [](const MultiHeadAttentionShape& shape) {
    return MultiHeadAttention::Create(shape, {}, WeightsDtype::kF32).status();
  };
  const auto invalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(create({64, 64, 0, 1, 8, 8}),
              StatusIs(invalid, Eq("num_heads: expected a positive number, found 0")));
  EXPECT_THAT(create({64, 64, 4, 3, 8, 8}),
              StatusIs(invalid, Eq("num_heads: expected a multiple of num_kv_heads 3, found 4")));
  EXPECT_THAT(create({64, 64, 4, 4, 513, 8}),
              StatusIs(invalid, Eq("head_dim: expected at most 512, found 513")));
}

/// The layer saved by torch.nn.MultiheadAttention, and its inputs and answers.
class TorchLayerTest : public ::testing::Test {
 protected:
  TorchLayerTest()
      : model_(LoadGolden("torch_mha/model.safetensors")),
        cases_(LoadGolden("torch_mha/cases.safetensors")) {
    const float* in = model_.at("in_proj_weight").as<float>();
    const float* bias = model_.at("in_proj_bias").as<float>();
    const float* out_bias = model_.at("out_proj.bias").as<float>();
    layer_ = *MultiHeadAttention::Create(
        {96, 96, 6, 6, 16, 16},
        {.query = {.data = in, .bias = bias},
         .key = {.data = in + 96 * 96, .bias = bias + 96},
         .value = {.data = in + 2 * 96 * 96, .bias = bias + 2 * 96},
         .output = {.data = model_.at("out_proj.weight").data(), .bias = out_bias}},
        WeightsDtype::kF32);
  }

  /// Largest absolute difference of the golden answer's rows; `lengths` per sequence, or empty for
  /// whole ones.
  double MaxError(const std::string& name, bool causal, std::optional<std::string> memory,
                  const std::vector<double>& lengths) {
    const Tensor& x = cases_.at("x");
    const int64_t batch = x.shape()[0];
    const int64_t seq_len = x.shape()[1];
    Tensor output(Dtype::kF32, x.shape());
    double worst = 0;
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t length = lengths.empty() ? seq_len : static_cast<int64_t>(lengths[b]);
      float* rows = output.as<float>() + b * seq_len * 96;
      LayerSequence sequence{.query_len = length,
                             .output = {rows, Dtype::kF32, length, 96, 96},
                             .options = {.causal = causal}};
      std::optional<MatrixView> memory_view;
      if (memory.has_value()) {
        const Tensor& m = cases_.at(*memory);
        sequence.memory_len = m.shape()[1];
        memory_view =
            MatrixView{m.as<float>() + b * m.shape()[1] * 96, Dtype::kF32, m.shape()[1], 96, 96};
      }
      ThreadPool pool(1);
      Workspace workspace(pool);
      const MatrixView rows_in{x.as<float>() + b * seq_len * 96, Dtype::kF32, length, 96, 96};
      EXPECT_THAT(
          layer_->Run(
              {.hidden_states = rows_in, .memory = memory_view, .sequences = {&sequence, 1}},
              workspace),
          IsOk());
      const float* expected = cases_.at(name).as<float>() + b * seq_len * 96;
      worst = std::max(
          worst, LargestDifference({expected, expected + length * 96}, {rows, rows + length * 96}));
    }
    return worst;
  }

  NamedTensors model_;
  NamedTensors cases_;
  std::unique_ptr<MultiHeadAttention> layer_;
};

constexpr double kMaxErrorPerLayer = 2e-5;

TEST_F(TorchLayerTest, SelfAttentionIsThatOfTorch) {
  EXPECT_LE(MaxError("self", false, std::nullopt, {}), kMaxErrorPerLayer);
}

TEST_F(TorchLayerTest, CausalSelfAttentionIsThatOfTorch) {
  EXPECT_LE(MaxError("causal", true, std::nullopt, {}), kMaxErrorPerLayer);
}

TEST_F(TorchLayerTest, PaddedSelfAttentionIsThatOfTorch) {
  EXPECT_LE(MaxError("padded", false, std::nullopt, ToDoubles(cases_.at("lengths"))),
            kMaxErrorPerLayer);
}

TEST_F(TorchLayerTest, CrossAttentionIsThatOfTorch) {
  EXPECT_LE(MaxError("cross", false, "memory", {}), kMaxErrorPerLayer);
}

}  // namespace
}  // namespace attention
