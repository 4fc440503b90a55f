// The reference against what PyTorch answered.
#include "tests/support/golden.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/reference/reference.h"
#include "gmock/gmock.h"

namespace attention::reference {
namespace {

// Both compute in double; the stored answer was rounded to f32 once.
constexpr double kStoredAnswerTolerance = 1e-7;
// The stored answer was computed in f32.
constexpr double kMaxAbsoluteError = 2e-5;

class SdpaGoldenTest : public ::testing::TestWithParam<std::string> {};

// The first `count` rows of `row_size` elements.
std::vector<double> FirstRows(std::vector<double> rows, int64_t count, int64_t row_size) {
  rows.resize(count * row_size);
  return rows;
}

// [num_rows, from] to [num_rows, to], the new columns zero.
std::vector<double> Widen(const std::vector<double>& rows, int64_t num_rows, int64_t from,
                          int64_t to) {
  std::vector<double> wide(num_rows * to);
  for (int64_t row = 0; row < num_rows; ++row) {
    std::copy_n(rows.begin() + row * from, from, wide.begin() + row * to);
  }
  return wide;
}

TEST_P(SdpaGoldenTest, Agrees) {
  const SdpaCase golden = LoadSdpaCase(GetParam());
  const Shape& query = golden.query.shape();
  const Shape& value = golden.value.shape();
  for (int64_t b = 0; b < query[0]; ++b) {
    const Extents extents = {.query_len = query[1],
                             .kv_len = golden.kv_lens[b],
                             .num_heads = query[2],
                             .num_kv_heads = value[2],
                             .head_dim = query[3],
                             .value_head_dim = value[3]};
    Options options{
        .causal = golden.causal, .scale = golden.scale, .query_offset = value[1] - query[1]};
    options.window = golden.window;
    options.softcap = golden.softcap;
    if (golden.bias.has_value()) {
      options.bias = ToDoubles(*golden.bias, b % golden.bias->shape()[0]);
    }
    const AttentionResult result = Attention(
        extents, ToDoubles(golden.query, b),
        FirstRows(ToDoubles(golden.key, b), extents.kv_len, value[2] * query[3]),
        FirstRows(ToDoubles(golden.value, b), extents.kv_len, value[2] * value[3]), options);
    EXPECT_LE(RelativeL2(result.output, ToDoubles(golden.output, b)), kStoredAnswerTolerance)
        << "sequence " << b;
    if (golden.weights.has_value()) {
      const std::vector<double> weights =
          Widen(result.weights, query[2] * query[1], extents.kv_len, value[1]);
      EXPECT_LE(RelativeL2(weights, ToDoubles(*golden.weights, b)), kStoredAnswerTolerance)
          << "sequence " << b;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllCases, SdpaGoldenTest, ::testing::ValuesIn(SdpaCaseNames()),
                         [](const auto& test) { return test.param; });

class TorchMhaGoldenTest : public ::testing::Test {
 protected:
  static constexpr int64_t kWidth = 96;
  static constexpr int64_t kNumHeads = 6;

  TorchMhaGoldenTest() : cases_(LoadGolden("torch_mha/cases.safetensors")) {
    const NamedTensors model = LoadGolden("torch_mha/model.safetensors");
    const Tensor& weights = model.at("in_proj_weight");
    const Tensor& biases = model.at("in_proj_bias");
    layer_ = {.d_model = kWidth,
              .d_memory = kWidth,
              .num_heads = kNumHeads,
              .num_kv_heads = kNumHeads,
              .head_dim = kWidth / kNumHeads,
              .value_head_dim = kWidth / kNumHeads,
              .query = Third(weights, 0),
              .key = Third(weights, 1),
              .value = Third(weights, 2),
              .output = ToDoubles(model.at("out_proj.weight")),
              .query_bias = Third(biases, 0),
              .key_bias = Third(biases, 1),
              .value_bias = Third(biases, 2),
              .output_bias = ToDoubles(model.at("out_proj.bias"))};
  }

  static std::vector<double> Third(const Tensor& tensor, int index) {
    const std::vector<double> all = ToDoubles(tensor);
    const int64_t size = std::ssize(all) / 3;
    return {all.begin() + index * size, all.begin() + (index + 1) * size};
  }

  int64_t batch_size() const { return cases_.at("x").shape()[0]; }
  std::vector<double> Golden(const char* name, int64_t b) const {
    return ToDoubles(cases_.at(name), b);
  }

  static void ExpectAgrees(const std::vector<double>& actual, const std::vector<double>& expected) {
    ASSERT_EQ(actual.size(), expected.size());
    EXPECT_LE(RelativeL2(actual, expected), kLayerToleranceF32);
    for (size_t i = 0; i < actual.size(); ++i) {
      ASSERT_NEAR(actual[i], expected[i], kMaxAbsoluteError) << i;
    }
  }

  NamedTensors cases_;
  Layer layer_;
};

TEST_F(TorchMhaGoldenTest, SelfAttentionAndItsWeightsAgree) {
  for (int64_t b = 0; b < batch_size(); ++b) {
    const AttentionResult result = MultiHeadAttention(layer_, Golden("x", b), {}, {});
    ExpectAgrees(result.output, Golden("self", b));
    ExpectAgrees(result.weights, Golden("self.weights", b));
  }
}

TEST_F(TorchMhaGoldenTest, CausalAgrees) {
  for (int64_t b = 0; b < batch_size(); ++b) {
    ExpectAgrees(MultiHeadAttention(layer_, Golden("x", b), {}, {.causal = true}).output,
                 Golden("causal", b));
  }
}

TEST_F(TorchMhaGoldenTest, PaddedAgreesUpToEachLength) {
  const std::vector<double> lengths = ToDoubles(cases_.at("lengths"));
  for (int64_t b = 0; b < batch_size(); ++b) {
    const int64_t length = static_cast<int64_t>(lengths[b]);
    ExpectAgrees(
        MultiHeadAttention(layer_, FirstRows(Golden("x", b), length, kWidth), {}, {}).output,
        FirstRows(Golden("padded", b), length, kWidth));
  }
}

TEST_F(TorchMhaGoldenTest, CrossAttentionAgrees) {
  for (int64_t b = 0; b < batch_size(); ++b) {
    ExpectAgrees(MultiHeadAttention(layer_, Golden("x", b), Golden("memory", b), {}).output,
                 Golden("cross", b));
  }
}

}  // namespace
}  // namespace attention::reference
