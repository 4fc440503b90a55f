#include "core/reference/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/tensor/seeded.h"
#include "gmock/gmock.h"

namespace attention::reference {
namespace {

using ::testing::DoubleEq;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<double> Seeded(uint64_t seed, int64_t count) {
  std::vector<float> values(count);
  FillSeeded(seed, 1.0f, values.data(), count);
  return {values.begin(), values.end()};
}

struct Problem {
  explicit Problem(const Extents& e)
      : extents(e),
        query(Seeded(1, e.query_len * e.num_heads * e.head_dim)),
        key(Seeded(2, e.kv_len * e.num_kv_heads * e.head_dim)),
        value(Seeded(3, e.kv_len * e.num_kv_heads * e.value_head_dim)) {}

  AttentionResult Solve(const Options& options = {}) const {
    return Attention(extents, query, key, value, options);
  }

  Extents extents;
  std::vector<double> query, key, value;
};

constexpr Extents kExtents = {.query_len = 5,
                              .kv_len = 9,
                              .num_heads = 4,
                              .num_kv_heads = 2,
                              .head_dim = 6,
                              .value_head_dim = 3};

// Tokens of `row_size` elements, in the order of `tokens`.
std::vector<double> PickTokens(const std::vector<double>& from, int64_t row_size,
                               const std::vector<int64_t>& tokens) {
  std::vector<double> picked;
  for (const int64_t token : tokens) {
    picked.insert(picked.end(), from.begin() + token * row_size,
                  from.begin() + (token + 1) * row_size);
  }
  return picked;
}

TEST(ReferenceAttentionTest, TwoKeysByHand) {
  const Extents extents = {.query_len = 1,
                           .kv_len = 2,
                           .num_heads = 1,
                           .num_kv_heads = 1,
                           .head_dim = 4,
                           .value_head_dim = 1};
  // Logits 0.5 * 2 ln 3 = ln 3 and 0: weights 3/4 and 1/4.
  const AttentionResult result =
      Attention(extents, {2, 0, 0, 0}, {std::log(3.0), 0, 0, 0, 0, 7, 0, 0}, {10, 20}, {});
  EXPECT_THAT(result.weights, ElementsAre(DoubleEq(0.75), DoubleEq(0.25)));
  EXPECT_THAT(result.output, ElementsAre(DoubleEq(12.5)));
}

TEST(ReferenceAttentionTest, ScaleReplacesTheDefault) {
  const Extents extents = {.query_len = 1,
                           .kv_len = 2,
                           .num_heads = 1,
                           .num_kv_heads = 1,
                           .head_dim = 1,
                           .value_head_dim = 1};
  const AttentionResult result = Attention(extents, {1}, {1, 0}, {0, 0}, {.scale = -std::log(4.0)});
  EXPECT_THAT(result.weights, ElementsAre(DoubleEq(0.2), DoubleEq(0.8)));
}

TEST(ReferenceAttentionTest, AConstantValueComesOutUnchanged) {
  Problem problem(kExtents);
  std::fill(problem.value.begin(), problem.value.end(), 2.5);
  for (const bool causal : {false, true}) {
    EXPECT_THAT(problem.Solve({.causal = causal}).output, ::testing::Each(DoubleNear(2.5, 1e-14)));
  }
}

TEST(ReferenceAttentionTest, PermutingKeysChangesNothing) {
  const Problem problem(kExtents);
  Problem permuted = problem;
  const std::vector<int64_t> order = {4, 8, 0, 2, 7, 1, 6, 5, 3};
  permuted.key = PickTokens(problem.key, 2 * 6, order);
  permuted.value = PickTokens(problem.value, 2 * 3, order);
  EXPECT_LE(RelativeL2(permuted.Solve().output, problem.Solve().output), 1e-14);
}

TEST(ReferenceAttentionTest, SharedHeadsEqualRepeatedHeads) {
  const Problem shared(kExtents);
  Problem repeated = shared;
  repeated.extents.num_kv_heads = 4;
  std::vector<int64_t> heads;  // each head of each token twice in a row
  for (int64_t head = 0; head < 9 * 2; ++head) {
    heads.insert(heads.end(), 2, head);
  }
  repeated.key = PickTokens(shared.key, 6, heads);
  repeated.value = PickTokens(shared.value, 3, heads);
  const AttentionResult expected = shared.Solve({.causal = true});
  const AttentionResult actual = repeated.Solve({.causal = true});
  EXPECT_EQ(actual.output, expected.output);
  EXPECT_EQ(actual.weights, expected.weights);
}

TEST(ReferenceAttentionTest, CausalAlignsTheLastRowWithTheLastKey) {
  const std::vector<double> weights = Problem(kExtents).Solve({.causal = true}).weights;
  for (int64_t i = 0; i < 5; ++i) {
    for (int64_t j = 0; j < 9; ++j) {
      EXPECT_EQ(weights[i * 9 + j] > 0, j <= i + 4) << i << ", " << j;
    }
  }
}

TEST(ReferenceAttentionTest, QueryOffsetMovesTheDiagonal) {
  for (const int64_t offset : {-7, -2, 0, 3, 100}) {
    const std::vector<double> weights =
        Problem(kExtents).Solve({.causal = true, .query_offset = offset}).weights;
    for (int64_t i = 0; i < 5; ++i) {
      for (int64_t j = 0; j < 9; ++j) {
        EXPECT_EQ(weights[i * 9 + j] > 0, j <= i + offset) << offset << ": " << i << ", " << j;
      }
    }
  }
}

TEST(ReferenceAttentionTest, QueryOffsetMeansNothingWithoutCausal) {
  const Problem problem(kExtents);
  EXPECT_EQ(problem.Solve({.query_offset = -100}).output, problem.Solve().output);
}

TEST(ReferenceAttentionTest, ARowThatSeesNoKeyIsZero) {
  const std::vector<double> output =
      Problem(kExtents).Solve({.causal = true, .query_offset = -2}).output;
  const auto third_row = output.begin() + 2 * 4 * 3;
  EXPECT_TRUE(std::all_of(output.begin(), third_row, [](double x) { return x == 0; }));
  EXPECT_TRUE(std::none_of(third_row, output.end(), [](double x) { return x == 0; }));

  Extents no_keys = kExtents;
  no_keys.kv_len = 0;
  EXPECT_EQ(Problem(no_keys).Solve().output, std::vector<double>(5 * 4 * 3));
}

TEST(ReferenceAttentionTest, ARowWithoutWeightIsZeroWhateverTheValuesAre) {
  Problem problem(kExtents);
  std::fill(problem.value.begin(), problem.value.end(), kNan);
  const Options sees_nothing_near = {.similarity = Similarity::kTriangular, .bandwidth = 1e-9};
  EXPECT_EQ(problem.Solve(sees_nothing_near).output, std::vector<double>(5 * 4 * 3));
  EXPECT_TRUE(std::isnan(problem.Solve().output.front()));
}

TEST(ReferenceAttentionTest, AHiddenKeyMayBeNan) {
  const Problem problem(kExtents);
  Problem with_nan = problem;
  std::fill(with_nan.key.end() - 2 * 6, with_nan.key.end(), kNan);
  std::fill(with_nan.value.end() - 2 * 3, with_nan.value.end(), kNan);
  const Options hides_last_key = {.causal = true, .query_offset = 3};
  EXPECT_EQ(with_nan.Solve(hides_last_key).output, problem.Solve(hides_last_key).output);
}

TEST(ReferenceAttentionTest, HugeLogitsDoNotOverflow) {
  const std::vector<double> weights = Problem(kExtents).Solve({.scale = 1e6}).weights;
  for (size_t row = 0; row < weights.size(); row += 9) {
    EXPECT_THAT(std::vector<double>(weights.begin() + row, weights.begin() + row + 9),
                ::testing::Contains(1.0));
  }
}

// Projections that pass their input through, so that a layer is attention itself.
Layer IdentityLayer() {
  return {.d_model = 2,
          .d_memory = 2,
          .num_heads = 2,
          .num_kv_heads = 2,
          .head_dim = 1,
          .value_head_dim = 1,
          .query = {1, 0, 0, 1},
          .key = {1, 0, 0, 1},
          .value = {1, 0, 0, 1},
          .output = {1, 0, 0, 1}};
}

constexpr Extents kIdentityExtents = {.query_len = 4,
                                      .kv_len = 4,
                                      .num_heads = 2,
                                      .num_kv_heads = 2,
                                      .head_dim = 1,
                                      .value_head_dim = 1};

TEST(ReferenceLayerTest, IdentityProjectionsLeaveAttention) {
  const std::vector<double> x = Seeded(4, 4 * 2);
  const AttentionResult layer = MultiHeadAttention(IdentityLayer(), x, {}, {.causal = true});
  const AttentionResult attention = Attention(kIdentityExtents, x, x, x, {.causal = true});
  EXPECT_EQ(layer.output, attention.output);
  EXPECT_EQ(layer.weights, attention.weights);
}

TEST(ReferenceLayerTest, WeightsMapInputsToOutputsByRow) {
  Layer layer = IdentityLayer();
  layer.output = {0, 2, 3, 0};  // y0 = 2 c1, y1 = 3 c0
  layer.output_bias = {10, 20};
  const std::vector<double> x = {5, 7};  // one row: its context is itself
  EXPECT_THAT(MultiHeadAttention(layer, x, {}, {}).output, ElementsAre(DoubleEq(24), DoubleEq(35)));
  layer.value_bias = {1, 2};
  EXPECT_THAT(MultiHeadAttention(layer, x, {}, {}).output, ElementsAre(DoubleEq(28), DoubleEq(38)));
}

TEST(ReferenceLayerTest, MemoryGivesKeysAndValues) {
  Layer layer = IdentityLayer();
  layer.d_memory = 3;
  layer.key = {1, 0, 0, 0, 1, 0};
  layer.value = {0, 1, 0, 0, 0, 1};
  const std::vector<double> x = Seeded(5, 4 * 2);
  const std::vector<double> memory = {0.5, -1, 2, 3, 0.25, -2};
  Extents extents = kIdentityExtents;
  extents.kv_len = 2;
  const AttentionResult expected = Attention(extents, x, {0.5, -1, 3, 0.25}, {-1, 2, 0.25, -2}, {});
  EXPECT_THAT(MultiHeadAttention(layer, x, memory, {}).output,
              Pointwise(DoubleEq(), expected.output));
}

TEST(RelativeL2Test, MeasuresTheDifferenceAgainstTheExpectation) {
  EXPECT_DOUBLE_EQ(RelativeL2({3, 4}, {3, 4}), 0);
  EXPECT_DOUBLE_EQ(RelativeL2({3, 4.5}, {3, 4}), 0.1);
  EXPECT_DOUBLE_EQ(RelativeL2({0, 0.5}, {0, 0}), 0.5);
  EXPECT_DOUBLE_EQ(RelativeL2({}, {}), 0);
}

TEST(RelativeL2Test, IsInfiniteWhereAFiniteValueWentMissing) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(RelativeL2({1, kNan}, {1, 2}), infinity);
  EXPECT_EQ(RelativeL2({1, infinity}, {1, 2}), infinity);
  EXPECT_DOUBLE_EQ(RelativeL2({1, 5}, {1, kNan}), 0);
}

}  // namespace
}  // namespace attention::reference
