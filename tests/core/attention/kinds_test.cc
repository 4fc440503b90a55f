// Every kind of attention against the double-precision reference: outputs, weights, log-sum-exp,
// top weights; and the promises about bits, which hold for each of them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/kernels/attention/visibility.h"
#include "gtest/gtest.h"
#include "tests/support/attention_problem.h"
#include "tests/support/golden.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

/// Frequencies that no base gives.
constexpr double kFrequencies[] = {1, 0.7, 0.02, 0.3, 0.0001};

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

const Rotary kYarn{.dim = 10, .position_offset = 3, .frequencies = kFrequencies, .magnitude = 1.2};

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
    {"WindowDilated",
     {200, 200, 2, 2, 64, 64},
     {.causal = true, .window = 48, .window_dilation = 2}},
    {"WindowDilatedAcrossTiles",
     {700, 1500, 2, 1, 32, 32},
     {.causal = true, .window = 1100, .window_dilation = 7}},
    {"WindowDilatedBothSides",
     {150, 700, 2, 2, 32, 32},
     {.window = 60, .window_right = 45, .window_dilation = 3}},
    {"WindowDilatedFarApart",
     {300, 1200, 2, 2, 32, 32},
     {.causal = true, .query_offset = 900, .window = 1200, .window_dilation = 600}},
    {"WindowDilatedBeyondTheKeys",
     {60, 90, 2, 2, 32, 32},
     {.query_offset = -20, .window = 50, .window_dilation = std::numeric_limits<int64_t>::max()}},
    {"WindowDilatedPrefixGlobalMask",
     {300, 600, 2, 2, 32, 32},
     {.causal = true, .window = 90, .window_dilation = 5, .prefix = 11},
     {.mask = true, .global_tokens = {5, 250, 512}}},
    {"WindowDilatedFewRows",
     {3, 1100, 4, 1, 64, 64},
     {.causal = true, .window = 700, .window_dilation = 4}},
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
    {"RotaryYarn", {60, 600, 4, 2, 30, 32}, {.causal = true, .rotary = kYarn}},
    {"RotaryAtNegativePositions",
     {60, 20, 2, 2, 32, 32},
     {.query_offset = -30, .rotary = kHalfSplit}},
    {"Norms", {60, 90, 2, 2, 64, 64}, {}, {.query_norm = true, .key_norm = true}},
    {"NormsAndRotary",
     {60, 90, 4, 2, 128, 128},
     {.causal = true, .rotary = kHalfSplit},
     {.query_norm = true, .key_norm = true}},
    {"Gaussian", {70, 600, 2, 2, 16, 16}, Regression(Similarity::kGaussian, 20)},
    {"GaussianWindowDilated",
     {90, 600, 2, 1, 8, 24},
     {.causal = true,
      .window = 200,
      .window_dilation = 3,
      .similarity = Similarity::kGaussian,
      .bandwidth = 5}},
    {"TriangularWindowDilated",
     {70, 90, 2, 2, 4, 16},
     {.window = 40, .window_dilation = 2, .similarity = Similarity::kTriangular, .bandwidth = 3}},
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
  EXPECT_THAT(ScaledDotProductAttention({&sequence, 1}, workspace, {on_rows, 64}), IsOk());
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

TEST_P(KindsTest, ARowWithoutNumbersHasNoLargestKeys) {
  if (row().options.similarity != Similarity::kDotProduct) {
    GTEST_SKIP() << "other kinds have rows of zero weights";
  }
  const auto problem = MakeProblem(27);
  const float kNaN = std::numeric_limits<float>::quiet_NaN();
  const int64_t count = problem->query.num_elements();
  const std::vector<float> values(count, kNaN);
  Convert(Dtype::kF32, values.data(), dtype(), problem->query.data(), count);
  const Answer answer = RunForAll(*problem);
  const float* weights = answer.weights.as<float>();
  for (int64_t r = 0; r < row().extents.num_heads * row().extents.query_len; ++r) {
    const float* all = weights + r * row().extents.kv_len;
    const bool has_keys = std::any_of(all, all + row().extents.kv_len,
                                      [](float weight) { return std::isnan(weight); });
    for (int64_t i = 0; i < kTop; ++i) {
      const float top = answer.top_weights.as<float>()[r * kTop + i];
      ASSERT_EQ(answer.top_keys.as<int32_t>()[r * kTop + i], -1);
      ASSERT_TRUE(has_keys ? std::isnan(top) || i >= row().extents.kv_len : top == 0)
          << "row " << r;
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
  EXPECT_EQ(Bytes(actual.top_weights), Bytes(expected.top_weights));
  EXPECT_EQ(Bytes(actual.top_keys), Bytes(expected.top_keys));
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

// An element of a value that is not finite reaches the same element of the rows that attend to its
// key. All other elements have the bits that they have with a zero in its place.
TEST_P(KindsTest, ElementsThatAreNotFiniteReachNoOtherElement) {
  const auto clean = MakeProblem(27);
  const auto dirty = MakeProblem(27);
  const reference::Extents& e = row().extents;
  const float bad[] = {std::numeric_limits<float>::quiet_NaN(),
                       std::numeric_limits<float>::infinity(),
                       -std::numeric_limits<float>::infinity()};
  std::mt19937 random(1);
  std::vector<int> is_bad(dirty->value.num_elements());  // 0: finite, else 1 + the index in `bad`
  for (int64_t i = 0; i < std::ssize(is_bad); ++i) {
    // Of the first key/value head every 40th element, of the others every 400th.
    const bool is_first_head = i % (e.num_kv_heads * e.value_head_dim) < e.value_head_dim;
    is_bad[i] = random() % (is_first_head ? 40 : 400) == 0 ? 1 + static_cast<int>(random() % 3) : 0;
    if (is_bad[i] != 0) {
      constexpr float kZero = 0;
      Convert(Dtype::kF32, &kZero, dtype(), ElementAt(clean->value.data(), dtype(), i), 1);
      Convert(Dtype::kF32, &bad[is_bad[i] - 1], dtype(), ElementAt(dirty->value.data(), dtype(), i),
              1);
    }
  }
  const std::vector<double> expected = RunAlone(*clean);
  const std::vector<double> output = RunAlone(*dirty);
  AttentionOptions options = dirty->options;
  options.query_offset = options.query_offset.value_or(e.kv_len - e.query_len);
  const Visibility rules(options, e.kv_len);
  const bool has_zero_weights =
      options.similarity == Similarity::kGaussian || options.similarity == Similarity::kBox ||
      options.similarity == Similarity::kTriangular || !options.alibi_slopes.empty();
  for (int64_t i = 0; i < e.query_len; ++i) {
    for (int64_t h = 0; h < e.num_heads; ++h) {
      const int64_t kv_head = h / (e.num_heads / e.num_kv_heads);
      for (int64_t d = 0; d < e.value_head_dim; ++d) {
        std::set<int> found;
        for (int64_t j = 0; j < e.kv_len; ++j) {
          const int64_t element = (j * e.num_kv_heads + kv_head) * e.value_head_dim + d;
          if (is_bad[element] != 0 && rules.AttendsTo(h, i, j)) {
            found.insert(is_bad[element]);
          }
        }
        const int64_t at = (i * e.num_heads + h) * e.value_head_dim + d;
        if (found.empty()) {
          ASSERT_EQ(output[at], expected[at]) << "row " << i << " head " << h << " element " << d;
        } else if (has_zero_weights) {
          continue;  // zero times infinity is NaN, and a row without weights is zeros
        } else if (found.size() == 1 && *found.begin() > 1) {
          ASSERT_EQ(output[at], bad[*found.begin() - 1]) << "row " << i << " head " << h;
        } else {
          ASSERT_TRUE(std::isnan(output[at])) << "row " << i << " head " << h;
        }
      }
    }
  }
}

TEST_P(KindsTest, NaNReachesOnlyRowsThatAttendToIt) {
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
  AttentionOptions options = dirty->options;
  options.query_offset = options.query_offset.value_or(e.kv_len - e.query_len);
  const Visibility rules(options, e.kv_len);
  for (int64_t i = 0; i < e.query_len; ++i) {
    for (int64_t h = 0; h < e.num_heads; ++h) {
      if (rules.AttendsTo(h, i, poisoned)) {
        continue;
      }
      const int64_t first = (i * e.num_heads + h) * e.value_head_dim;
      for (int64_t d = first; d < first + e.value_head_dim; ++d) {
        ASSERT_EQ(output[d], expected[d]) << "row " << i << " head " << h;
      }
    }
  }
}

}  // namespace
}  // namespace attention
