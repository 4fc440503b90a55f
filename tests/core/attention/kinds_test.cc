// Every kind of attention against the double-precision reference: outputs, weights, log-sum-exp,
// top weights; and the promises about bits, which hold for each of them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/kernels/onednn/isa.h"
#include "core/kernels/visibility.h"
#include "gtest/gtest.h"
#include "tests/support/attention_problem.h"
#include "tests/support/golden.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

struct KindCase {
  std::string name;
  // query_len, kv_len, num_heads, num_kv_heads, head_dim, value_head_dim
  reference::Extents extents;
  AttentionOptions options;
  Extras extras = {};
};

void PrintTo(const KindCase& row, std::ostream* out) { *out << row.name; }

AttentionOptions Regression(Similarity similarity, double bandwidth, bool causal = false) {
  return {.causal = causal, .similarity = similarity, .bandwidth = bandwidth};
}

const Rotary kHalfSplit;
const Rotary kInterleaved{.interleaved = true};
const Rotary kPartial{.dim = 24, .base = 500000, .position_offset = 1000};
const Rotary kLinearScaling{.scaling = Rotary::Scaling::kLinear, .factor = 4};
const Rotary kLlama3{.base = 500000,
                     .scaling = Rotary::Scaling::kLlama3,
                     .factor = 8,
                     .original_max_positions = 256};

const KindCase kKindCases[] = {
    {"Window", {200, 200, 2, 2, 64, 64}, {.causal = true, .window = 24}},
    {"WindowOfOne", {70, 70, 2, 2, 32, 32}, {.causal = true, .window = 1}},
    {"WindowAcrossTiles", {900, 900, 1, 1, 32, 32}, {.causal = true, .window = 100}},
    {"WindowWiderThanATile", {700, 1500, 1, 1, 32, 32}, {.causal = true, .window = 600}},
    {"WindowWithoutCausal", {150, 150, 2, 2, 32, 32}, {.window = 20}},
    {"WindowBothSides", {150, 700, 2, 2, 32, 32}, {.window = 20, .window_right = 30}},
    {"WindowRight", {150, 150, 2, 2, 32, 32}, {.window_right = 3}},
    {"WindowBeforeAllKeys", {40, 20, 2, 1, 32, 32}, {.query_offset = 100, .window = 5}},
    {"WindowAtSomeRows", {100, 50, 2, 2, 32, 32}, {.query_offset = -40, .window = 10}},
    {"Prefix", {150, 150, 2, 2, 32, 32}, {.causal = true, .prefix = 40}},
    {"PrefixAndWindow", {700, 700, 2, 1, 32, 32}, {.causal = true, .window = 50, .prefix = 7}},
    {"PrefixPastTheEnd", {20, 30, 2, 2, 32, 32}, {.causal = true, .prefix = 100}},
    {"PrefixOfEarlyRows",
     {20, 30, 2, 2, 32, 32},
     {.causal = true, .query_offset = -15, .prefix = 3}},
    {"GlobalTokens",
     {600, 600, 2, 2, 32, 32},
     {.window = 16, .window_right = 16},
     {.global_tokens = {0, 1, 77, 512, 599}}},
    {"GlobalTokensCausal",
     {130, 130, 2, 1, 64, 64},
     {.causal = true, .window = 8},
     {.global_tokens = {3, 100}}},
    {"Bias", {100, 130, 3, 3, 32, 32}, {}, {.bias = true}},
    {"SharedBias", {65, 600, 4, 2, 64, 64}, {.causal = true}, {.shared_bias = true}},
    {"Mask", {100, 600, 2, 2, 32, 32}, {}, {.mask = true}},
    {"MaskCausal", {70, 70, 4, 1, 64, 64}, {.causal = true}, {.mask = true}},
    {"MaskWindowGlobal",
     {300, 300, 2, 2, 32, 32},
     {.causal = true, .window = 30},
     {.mask = true, .global_tokens = {5, 250}}},
    {"Softcap", {100, 600, 2, 2, 64, 64}, {.softcap = 20}},
    {"SoftcapThatBites", {100, 100, 2, 2, 64, 64}, {.causal = true, .scale = 2, .softcap = 5}},
    {"Alibi", {600, 600, 4, 4, 32, 32}, {.causal = true}, {.alibi = true}},
    {"AlibiFarPastTheKeys",
     {30, 90, 4, 4, 32, 32},
     {.query_offset = int64_t{1} << 30},
     {.alibi = true, .sinks = true}},
    {"AlibiFarBeforeTheKeys",
     {30, 90, 4, 4, 32, 32},
     {.query_offset = -(int64_t{1} << 30)},
     {.alibi = true}},
    {"AlibiBothWays", {60, 90, 4, 4, 32, 32}, {}, {.alibi = true}},
    {"Sinks", {100, 600, 4, 2, 64, 64}, {.causal = true}, {.sinks = true}},
    {"SinksWithWindow", {100, 100, 4, 2, 64, 64}, {.causal = true, .window = 4}, {.sinks = true}},
    {"SoftcapAlibiBiasSinks",
     {70, 200, 4, 2, 48, 80},
     {.causal = true, .window = 90, .softcap = 30},
     {.bias = true, .mask = true, .alibi = true, .sinks = true}},
    {"ZeroScaleWithMask", {50, 90, 2, 2, 32, 32}, {.scale = 0.0f}, {.mask = true}},
    {"NegativeScaleSoftcap", {50, 90, 2, 2, 32, 32}, {.scale = -0.5f, .softcap = 3}},
    {"RotaryHalfSplit", {100, 130, 2, 2, 64, 64}, {.causal = true, .rotary = kHalfSplit}},
    {"RotaryInterleaved", {100, 130, 4, 2, 64, 64}, {.causal = true, .rotary = kInterleaved}},
    {"RotaryPartial", {60, 90, 2, 2, 80, 80}, {.rotary = kPartial}},
    {"RotaryLinearScaling", {60, 300, 2, 2, 64, 64}, {.causal = true, .rotary = kLinearScaling}},
    {"RotaryLlama3", {60, 600, 2, 2, 128, 128}, {.causal = true, .rotary = kLlama3}},
    {"RotaryAtNegativePositions",
     {60, 20, 2, 2, 32, 32},
     {.query_offset = -30, .rotary = kHalfSplit}},
    {"Norms", {60, 90, 2, 2, 64, 64}, {}, {.query_norm = true, .key_norm = true}},
    {"NormsAndRotary",
     {60, 90, 4, 2, 128, 128},
     {.causal = true, .rotary = kHalfSplit},
     {.query_norm = true, .key_norm = true}},
    {"Gaussian", {70, 600, 2, 2, 16, 16}, Regression(Similarity::kGaussian, 20)},
    {"GaussianCausalMasked",
     {90, 90, 2, 1, 8, 24},
     Regression(Similarity::kGaussian, 5, true),
     {.mask = true}},
    {"GaussianOfWideHeads", {40, 300, 1, 1, 128, 16}, Regression(Similarity::kGaussian, 100)},
    {"TriangularNearItsEdge", {20, 500, 1, 1, 64, 16}, Regression(Similarity::kTriangular, 11)},
    {"GaussianNarrow", {70, 200, 2, 2, 16, 16}, Regression(Similarity::kGaussian, 0.5)},
    {"Box", {70, 600, 2, 2, 4, 16}, Regression(Similarity::kBox, 2)},
    {"BoxOfNothing", {20, 30, 2, 2, 16, 16}, Regression(Similarity::kBox, 0.01)},
    {"Triangular", {70, 600, 2, 2, 4, 16}, Regression(Similarity::kTriangular, 3)},
    {"TriangularCausal", {70, 70, 2, 2, 3, 5}, Regression(Similarity::kTriangular, 2.5, true)},
    {"Linear", {70, 100, 2, 2, 32, 32}, {.similarity = Similarity::kLinear}},
    {"LinearCausal", {200, 200, 4, 2, 64, 48}, {.causal = true, .similarity = Similarity::kLinear}},
    {"LinearCausalOffset",
     {90, 150, 2, 2, 16, 16},
     {.causal = true, .query_offset = -3, .similarity = Similarity::kLinear}},
    {"LinearNormsOddWidth",
     {90, 150, 2, 2, 17, 9},
     {.causal = true, .similarity = Similarity::kLinear},
     {.query_norm = true, .key_norm = true}},
    {"LinearRotary",
     {90, 150, 2, 2, 16, 16},
     {.causal = true, .rotary = kHalfSplit, .similarity = Similarity::kLinear}},
};

struct Answer {
  Tensor weights, log_sum_exp, top_weights, top_keys;
  std::vector<double> output;
};

constexpr int64_t kTop = 5;

/// Everything there is to ask for. `top_keys` are int32.
Answer RunForAll(AttentionProblem& problem, int num_threads = 2,
                 const RowsCallback& on_rows = nullptr) {
  const reference::Extents& e = problem.extents;
  Answer answer{Tensor(Dtype::kF32, {e.num_heads, e.query_len, e.kv_len}),
                Tensor(Dtype::kF32, {e.num_heads, e.query_len}),
                Tensor(Dtype::kF32, {e.num_heads, e.query_len, kTop}),
                Tensor(Dtype::kF32, {e.num_heads, e.query_len, kTop}),
                {}};
  AttentionSequence sequence = problem.Sequence();
  sequence.weights = answer.weights.as<float>();
  sequence.log_sum_exp = answer.log_sum_exp.as<float>();
  sequence.top_weights = {kTop, answer.top_weights.as<float>(), answer.top_keys.as<int32_t>()};
  ThreadPool pool(num_threads);
  Workspace workspace(pool);
  EXPECT_THAT(ScaledDotProductAttention({&sequence, 1}, workspace, on_rows, 64), IsOk());
  answer.output = ToDoubles(problem.output);
  return answer;
}

class KindsTest : public ::testing::TestWithParam<std::tuple<Dtype, KindCase>> {
 protected:
  Dtype dtype() const { return std::get<0>(GetParam()); }
  const KindCase& row() const { return std::get<1>(GetParam()); }
  std::unique_ptr<AttentionProblem> MakeProblem(uint64_t seed) const {
    auto problem = std::make_unique<AttentionProblem>(seed, dtype(), row().extents, row().options);
    problem->Add(row().extras);
    return problem;
  }
};

INSTANTIATE_TEST_SUITE_P(All, KindsTest,
                         ::testing::Combine(::testing::Values(Dtype::kF32, Dtype::kBf16),
                                            ::testing::ValuesIn(kKindCases)),
                         [](const auto& p) {
                           return std::string(Name(std::get<0>(p.param))) + "_" +
                                  std::get<1>(p.param).name;
                         });

TEST_P(KindsTest, AgreesWithTheReference) {
  const auto problem = MakeProblem(21);
  const double tolerance = dtype() == Dtype::kF32 ? reference::kAttentionToleranceF32
                                                  : reference::kAttentionToleranceBf16;
  EXPECT_LE(reference::RelativeL2(RunAlone(*problem), problem->Expected()), tolerance);
}

TEST_P(KindsTest, WeightsAndLogSumExpAgreeWithTheReference) {
  const auto problem = MakeProblem(22);
  const Answer answer = RunForAll(*problem);
  const reference::AttentionResult expected = problem->Reference();
  // The reference sees the same rounded inputs, so bf16 weights are as exact as f32 ones.
  EXPECT_LE(reference::RelativeL2(ToDoubles(answer.weights), expected.weights), 1e-6);
  const std::vector<double> log_sum_exp = ToDoubles(answer.log_sum_exp);
  for (size_t i = 0; i < log_sum_exp.size(); ++i) {
    if (std::isinf(expected.log_sum_exp[i])) {
      ASSERT_EQ(log_sum_exp[i], expected.log_sum_exp[i]);
    } else {
      ASSERT_NEAR(log_sum_exp[i], expected.log_sum_exp[i],
                  (dtype() == Dtype::kF32 ? 2e-6 : 2e-2) *
                      std::max(1.0, std::abs(expected.log_sum_exp[i])));
    }
  }
}

TEST_P(KindsTest, TopWeightsAreTheLargestOfAllWeights) {
  const auto problem = MakeProblem(23);
  const Answer answer = RunForAll(*problem);
  const int64_t kv_len = row().extents.kv_len;
  for (int64_t r = 0; r < row().extents.num_heads * row().extents.query_len; ++r) {
    const float* weights = answer.weights.as<float>() + r * kv_len;
    std::vector<int32_t> keys(kv_len);
    for (int64_t j = 0; j < kv_len; ++j) {
      keys[j] = static_cast<int32_t>(j);
    }
    std::stable_sort(keys.begin(), keys.end(),
                     [weights](int32_t a, int32_t b) { return weights[a] > weights[b]; });
    for (int64_t i = 0; i < kTop; ++i) {
      const bool is_there = i < kv_len && weights[keys[i]] > 0;
      ASSERT_EQ(answer.top_weights.as<float>()[r * kTop + i], is_there ? weights[keys[i]] : 0);
      ASSERT_EQ(answer.top_keys.as<int32_t>()[r * kTop + i], is_there ? keys[i] : -1);
    }
  }
}

TEST_P(KindsTest, NeitherThreadsNorBlocksNorBatchMatesChangeABit) {
  const auto alone = MakeProblem(24);
  const Answer expected = RunForAll(*alone, 1);
  const auto threads = MakeProblem(24);
  const Answer actual = RunForAll(*threads, 3);
  EXPECT_EQ(Bytes(threads->output), Bytes(alone->output));
  EXPECT_EQ(Bytes(actual.weights), Bytes(expected.weights));
  EXPECT_EQ(Bytes(actual.log_sum_exp), Bytes(expected.log_sum_exp));
  const auto blocks = MakeProblem(24);
  RunForAll(*blocks, 2, [](const RowRange&) { return true; });
  EXPECT_EQ(Bytes(blocks->output), Bytes(alone->output));

  const auto mate = MakeProblem(24);
  const reference::Extents others{90,
                                  40,
                                  row().extents.num_heads,
                                  row().extents.num_kv_heads,
                                  row().extents.head_dim,
                                  row().extents.value_head_dim};
  AttentionProblem before(25, dtype(), others, {.causal = true});
  AttentionProblem after(26, dtype(), others, {.causal = true});
  const AttentionSequence batch[] = {before.Sequence(), mate->Sequence(), after.Sequence()};
  ThreadPool pool(2);
  Workspace workspace(pool);
  ASSERT_THAT(ScaledDotProductAttention(batch, workspace), IsOk());
  EXPECT_EQ(Bytes(mate->output), Bytes(alone->output));
}

TEST_P(KindsTest, NaNReachesNoRowThatDoesNotSeeIt) {
  const auto clean = MakeProblem(26);
  RunAlone(*clean);
  const auto dirty = MakeProblem(26);
  const reference::Extents& e = row().extents;
  const int64_t poisoned = e.kv_len / 2;
  const float kNaN = std::numeric_limits<float>::quiet_NaN();
  for (const auto& [tensor, width] :
       {std::pair(&dirty->key, e.num_kv_heads * e.head_dim),
        std::pair(&dirty->value, e.num_kv_heads * e.value_head_dim)}) {
    const std::vector<float> values(width, kNaN);
    Convert(Dtype::kF32, values.data(), dtype(),
            ElementAt(tensor->data(), dtype(), poisoned * width), width);
  }
  const std::vector<double> output = RunAlone(*dirty);
  const std::vector<double> expected = ToDoubles(clean->output);
  const Visibility rules{
      .kv_len = e.kv_len,
      .query_offset = row().options.query_offset.value_or(e.kv_len - e.query_len),
      .causal = row().options.causal,
      .window = row().options.window,
      .window_right = row().options.window_right,
      .prefix = row().options.prefix,
      .global_tokens = dirty->options.global_tokens,
      .mask = dirty->options.mask};
  for (int64_t i = 0; i < e.query_len; ++i) {
    for (int64_t h = 0; h < e.num_heads; ++h) {
      if (rules.Sees(h, i, poisoned)) {
        continue;
      }
      const int64_t first = (i * e.num_heads + h) * e.value_head_dim;
      for (int64_t d = first; d < first + e.value_head_dim; ++d) {
        ASSERT_EQ(output[d], expected[d]) << "row " << i << " head " << h;
      }
    }
  }
}

TEST(KindsTest, DistancesOfFarButClosePointsDoNotCancel) {
  // Points near (100, 100, ...): |q|^2 + |k|^2 - 2 q.k would lose what is left of f32.
  AttentionProblem problem(27, Dtype::kF32, {40, 60, 1, 1, 8, 8},
                           Regression(Similarity::kGaussian, 1));
  for (Tensor* tensor : {&problem.query, &problem.key}) {
    for (int64_t i = 0; i < tensor->num_elements(); ++i) {
      tensor->as<float>()[i] = 100 + 0.25f * tensor->as<float>()[i];
    }
  }
  EXPECT_LE(reference::RelativeL2(RunAlone(problem), problem.Expected()),
            reference::kAttentionToleranceF32);
}

TEST(KindsTest, ABiasOfMinusInfinityHidesItsKey) {
  AttentionProblem problem(28, Dtype::kF32, {10, 20, 2, 2, 16, 16});
  problem.Add({.bias = true});
  auto* bias = const_cast<float*>(problem.options.bias.data);
  for (int64_t i = 0; i < 2 * 10; ++i) {
    bias[i * 20 + 3] = -std::numeric_limits<float>::infinity();
  }
  std::fill_n(bias, 20, -std::numeric_limits<float>::infinity());  // row 0 of head 0 sees nothing
  std::fill_n(problem.value.as<float>() + 3 * 32, 32, std::numeric_limits<float>::infinity());
  const std::vector<double> output = RunAlone(problem);
  for (int64_t i = 0; i < std::ssize(output); ++i) {
    ASSERT_TRUE(std::isfinite(output[i]));
    ASSERT_TRUE(i >= 16 || output[i] == 0);
  }
}

TEST(KindsTest, ABiasOfMinusInfinityHidesANaNKey) {
  AttentionProblem problem(33, Dtype::kF32, {10, 20, 2, 2, 16, 16});
  problem.Add({.shared_bias = true});
  auto* bias = const_cast<float*>(problem.options.bias.data);
  for (int64_t i = 0; i < 10; ++i) {
    bias[i * 20 + 3] = -std::numeric_limits<float>::infinity();
  }
  std::fill_n(problem.key.as<float>() + 3 * 32, 32, std::numeric_limits<float>::quiet_NaN());
  for (const double value : RunAlone(problem)) {
    ASSERT_TRUE(std::isfinite(value));
  }
}

TEST(KindsTest, ANaNQueryGivesNaNAndHarmsNoOtherRow) {
  for (const Similarity similarity : {Similarity::kDotProduct, Similarity::kLinear}) {
    AttentionProblem clean(30, Dtype::kF32, {20, 600, 2, 2, 16, 16},
                           {.causal = true, .query_offset = -1, .similarity = similarity});
    const std::vector<double> expected = RunAlone(clean);
    AttentionProblem dirty(30, Dtype::kF32, {20, 600, 2, 2, 16, 16},
                           {.causal = true, .query_offset = -1, .similarity = similarity});
    for (const int64_t row : {0, 7}) {  // row 0 sees no key
      std::fill_n(dirty.query.as<float>() + row * 32, 32, std::numeric_limits<float>::quiet_NaN());
    }
    const std::vector<double> output = RunAlone(dirty);
    for (int64_t i = 0; i < std::ssize(output); ++i) {
      if (i / 32 == 7) {
        ASSERT_TRUE(std::isnan(output[i])) << i;
      } else {
        ASSERT_EQ(output[i], expected[i]) << i;
      }
    }
  }
}

TEST(KindsTest, ATileOfNaNIsNotForgottenByTheNext) {
  AttentionProblem problem(31, Dtype::kF32, {4, 600, 2, 2, 16, 16});
  std::fill_n(problem.key.as<float>(), 512 * 32, std::numeric_limits<float>::quiet_NaN());
  for (const double value : RunAlone(problem)) {
    ASSERT_TRUE(std::isnan(value));
  }
}

TEST(KindsTest, HugeLogitsInDifferentTilesKeepTheirDifference) {
  AttentionProblem problem(32, Dtype::kF32, {1, 600, 1, 1, 16, 16}, {.scale = 1.0f});
  std::fill_n(problem.query.as<float>(), 16, 0.0f);
  problem.query.as<float>()[0] = 1;
  for (int64_t j = 0; j < 600; ++j) {
    problem.key.as<float>()[j * 16] = j == 0 ? 1e6f : j == 599 ? 1e6f + 1 : 0;
  }
  EXPECT_LE(reference::RelativeL2(RunAlone(problem), problem.Expected()), 1e-6);
}

TEST(KindsTest, ExtremeButFiniteOptionsGiveNoNaN) {
  const AttentionOptions options[] = {Regression(Similarity::kGaussian, 1e60),
                                      Regression(Similarity::kGaussian, 1e-39),
                                      {.scale = 3e38f},
                                      {.scale = 1e-45f}};
  for (const AttentionOptions& option : options) {
    AttentionProblem problem(34, Dtype::kF32, {10, 600, 2, 2, 16, 16}, option);
    problem.Add({.mask = true});
    for (const double value : RunAlone(problem)) {
      ASSERT_TRUE(std::isfinite(value));
    }
  }
  if (CurrentIsa() < Isa::kAvx512) {
    return;  // where exp below 2^-126 is 0
  }
  AttentionProblem tiny(35, Dtype::kF32, {3, 20, 1, 1, 1, 4}, {.similarity = Similarity::kLinear});
  std::fill_n(tiny.query.as<float>(), 3, -92.0f);
  EXPECT_LE(reference::RelativeL2(RunAlone(tiny), tiny.Expected()), 1e-3);  // subnormal sums
}

TEST(KindsTest, PositionsAtTheEndOfTheirRange) {
  const int64_t kFar = std::numeric_limits<int64_t>::max();
  AttentionProblem plain(36, Dtype::kF32, {10, 20, 2, 2, 16, 16});
  AttentionProblem wide(36, Dtype::kF32, {10, 20, 2, 2, 16, 16},
                        {.window = kFar, .window_right = kFar, .prefix = kFar});
  EXPECT_EQ(RunAlone(wide), RunAlone(plain));
  AttentionSequence sequence = plain.Sequence();
  sequence.options.query_offset = kFar;
  EXPECT_THAT(Validate({&sequence, 1}),
              StatusIs(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("query_offset")));
}

TEST(KindsTest, AHugeSinkLeavesNothing) {
  AttentionProblem problem(29, Dtype::kF32, {4, 20, 2, 2, 16, 16});
  const float sinks[] = {1000, -1000};
  problem.options.sinks = sinks;
  const std::vector<double> output = RunAlone(problem);
  EXPECT_LE(reference::RelativeL2(output, problem.Expected()), 1e-6);
  EXPECT_EQ(output[0], 0);
}

}  // namespace
}  // namespace attention
