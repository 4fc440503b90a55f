// Attention against the double-precision reference, for every shape and option it takes.
#include <string>
#include <vector>

#include "core/kernels/onednn/isa.h"
#include "gtest/gtest.h"
#include "tests/support/attention_problem.h"
#include "tests/support/golden.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

struct ConformanceCase {
  std::string name;
  reference::Extents
      extents;  // query_len, kv_len, num_heads, num_kv_heads, head_dim, value_head_dim
  AttentionOptions options;
};

void PrintTo(const ConformanceCase& row, std::ostream* out) { *out << row.name; }

const AttentionOptions kCausal{.causal = true};

const ConformanceCase kConformanceCases[] = {
    {"OneOfEach", {1, 1, 1, 1, 1, 1}, {}},
    {"OddWidths", {7, 5, 3, 3, 3, 5}, {}},
    {"HeadDim16", {33, 33, 2, 2, 16, 16}, {}},
    {"HeadDim32", {64, 64, 4, 4, 32, 32}, kCausal},
    {"HeadDim64", {128, 128, 2, 2, 64, 64}, {}},
    {"HeadDim80", {50, 90, 2, 2, 80, 80}, {}},
    {"HeadDim96Causal", {65, 65, 2, 2, 96, 96}, kCausal},
    {"HeadDim128Causal", {200, 200, 2, 2, 128, 128}, kCausal},
    {"HeadDim256", {40, 70, 1, 1, 256, 256}, {}},
    {"HeadDim512", {20, 80, 1, 1, 512, 512}, kCausal},
    {"ValueWiderThanKey", {30, 40, 2, 2, 24, 72}, {}},
    {"ValueNarrowerThanKey", {30, 40, 2, 2, 72, 24}, kCausal},
    {"SeveralKeyTiles", {70, 1100, 1, 1, 64, 64}, {}},
    {"SeveralKeyTilesCausal", {1100, 1100, 1, 1, 32, 32}, kCausal},
    {"TailOfOneKey", {64, 513, 1, 1, 64, 64}, {}},
    {"BottomRight", {37, 93, 2, 2, 64, 64}, kCausal},
    {"MoreQueriesThanKeys", {100, 30, 2, 2, 64, 64}, kCausal},
    {"DecodeOneRow", {1, 700, 4, 4, 64, 64}, kCausal},
    {"GroupedHeads", {90, 90, 8, 2, 64, 64}, kCausal},
    {"OneKeyValueHead", {50, 120, 6, 1, 32, 32}, kCausal},
    {"QueryOffsetAtStart", {40, 200, 2, 2, 64, 64}, {.causal = true, .query_offset = 0}},
    {"QueryOffsetInside", {40, 200, 2, 2, 64, 64}, {.causal = true, .query_offset = 77}},
    {"QueryOffsetPastKeys", {40, 50, 2, 2, 64, 64}, {.causal = true, .query_offset = 500}},
    {"QueryOffsetNegative", {140, 50, 2, 2, 64, 64}, {.causal = true, .query_offset = -75}},
    {"NoRowSeesAKey", {10, 5, 2, 2, 64, 64}, {.causal = true, .query_offset = -100}},
    {"SmallScale", {64, 64, 2, 2, 64, 64}, {.scale = 0.01f}},
    {"ZeroScale", {20, 30, 2, 2, 64, 64}, {.scale = 0.0f}},
    {"NegativeScale", {64, 100, 2, 2, 64, 64}, {.causal = true, .scale = -0.2f}},
};

class ConformanceTest : public ::testing::TestWithParam<std::tuple<Dtype, ConformanceCase>> {};

TEST_P(ConformanceTest, AgreesWithTheReference) {
  const auto& [dtype, row] = GetParam();
  AttentionProblem problem(11, dtype, row.extents, row.options);
  const double tolerance =
      dtype == Dtype::kF32 ? reference::kAttentionToleranceF32 : reference::kAttentionToleranceBf16;
  EXPECT_LE(reference::RelativeL2(RunAlone(problem), problem.Expected()), tolerance);
}

TEST_P(ConformanceTest, WeightsAgreeWithTheReference) {
  const auto& [dtype, row] = GetParam();
  AttentionProblem problem(12, dtype, row.extents, row.options);
  Tensor weights(Dtype::kF32, {row.extents.num_heads, row.extents.query_len, row.extents.kv_len});
  AttentionSequence sequence = problem.Sequence();
  sequence.weights = weights.as<float>();
  ThreadPool pool(2);
  Workspace workspace(pool);
  ASSERT_THAT(ScaledDotProductAttention({&sequence, 1}, workspace), IsOk());
  // The reference sees the same rounded inputs, so bf16 weights are as exact as f32 ones.
  EXPECT_LE(reference::RelativeL2(ToDoubles(weights), problem.ExpectedWeights()), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(All, ConformanceTest,
                         ::testing::Combine(::testing::Values(Dtype::kF32, Dtype::kBf16),
                                            ::testing::ValuesIn(kConformanceCases)),
                         [](const auto& p) {
                           return std::string(Name(std::get<0>(p.param))) + "_" +
                                  std::get<1>(p.param).name;
                         });

TEST(ConformanceTest, HalfPrecisionInputsAreComputedInF32) {
  AttentionProblem problem(13, Dtype::kF16, {65, 130, 2, 2, 64, 64}, kCausal);
  Tensor output(Dtype::kF32, problem.output.shape());
  AttentionSequence sequence = problem.Sequence();
  sequence.output = DenseHeads(output.data(), Dtype::kF32, 65, 2, 64);
  ThreadPool pool(1);
  Workspace workspace(pool);
  ASSERT_THAT(ScaledDotProductAttention({&sequence, 1}, workspace), IsOk());
  EXPECT_LE(reference::RelativeL2(ToDoubles(output), problem.Expected()),
            reference::kAttentionToleranceF32);
}

TEST(ConformanceTest, LargeLogitsStayFinite) {
  for (const float factor : {300.0f, 30000.0f}) {
    AttentionProblem problem(14, Dtype::kF32, {100, 600, 2, 2, 64, 64},
                             {.causal = true, .scale = factor / 8});
    EXPECT_LE(reference::RelativeL2(RunAlone(problem), problem.Expected()), 1e-5) << factor;
  }
}

TEST(ConformanceTest, LogitsBeyondTheRangeOfExpAreComputed) {
  AttentionProblem problem(15, Dtype::kF32, {64, 520, 1, 1, 64, 64}, {.scale = 1e12f});
  EXPECT_LE(reference::RelativeL2(RunAlone(problem), problem.Expected()), 1e-6);
}

class GoldenTest : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenTest, AgreesWithThePublishedImplementation) {
  const SdpaCase golden = LoadSdpaCase(GetParam());
  const Shape& q = golden.query.shape();
  const Shape& v = golden.value.shape();
  Tensor output(Dtype::kF32, golden.output.shape());
  std::vector<AttentionSequence> sequences;
  for (int64_t b = 0; b < q[0]; ++b) {
    const auto part = [b](auto& tensor) {
      const Shape& s = tensor.shape();
      return SliceTokens(DenseHeads(tensor.data(), tensor.dtype(), s[0] * s[1], s[2], s[3]),
                         b * s[1], s[1]);
    };
    AttentionOptions options{.causal = golden.causal, .query_offset = v[1] - q[1]};
    if (golden.scale.has_value()) {
      options.scale = *golden.scale;
    }
    options.window = golden.window;
    options.softcap = static_cast<float>(golden.softcap);
    if (golden.bias.has_value()) {
      const Shape& shape = golden.bias->shape();
      const int64_t scores = shape[2] * shape[3];
      options.bias = {golden.bias->as<float>() + b % shape[0] * shape[1] * scores,
                      shape[1] == 1 ? 0 : scores, shape[3]};
    }
    sequences.push_back({.query = part(golden.query),
                         .key = SliceTokens(part(golden.key), 0, golden.kv_lens[b]),
                         .value = SliceTokens(part(golden.value), 0, golden.kv_lens[b]),
                         .output = part(output),
                         .options = options});
  }
  ThreadPool pool(2);
  Workspace workspace(pool);
  ASSERT_THAT(ScaledDotProductAttention(sequences, workspace), IsOk());
  EXPECT_LE(reference::RelativeL2(ToDoubles(output), ToDoubles(golden.output)),
            GetParam() == "large_logits" ? 1e-5 : reference::kAttentionToleranceF32);
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTest, ::testing::ValuesIn(SdpaCaseNames()),
                         [](const auto& p) { return p.param; });

}  // namespace
}  // namespace attention
