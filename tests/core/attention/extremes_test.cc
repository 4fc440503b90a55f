// Numbers at the end of their range, and what a number that is none may reach.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/attention_problem.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

TEST(ExtremesTest, DistancesOfFarButClosePointsDoNotCancel) {
  // Points near (100, 100, ...): |q|^2 + |k|^2 - 2 q.k would lose what is left of f32.
  AttentionProblem problem(27, Dtype::kF32, {40, 60, 1, 1, 8, 8},
                           {.similarity = Similarity::kGaussian, .bandwidth = 1});
  for (Tensor* tensor : {&problem.query, &problem.key}) {
    for (int64_t i = 0; i < tensor->num_elements(); ++i) {
      tensor->as<float>()[i] = 100 + 0.25f * tensor->as<float>()[i];
    }
  }
  EXPECT_LE(reference::RelativeL2(RunAlone(problem), problem.Expected()),
            reference::kAttentionToleranceF32);
}

TEST(ExtremesTest, ABiasOfMinusInfinityHidesItsKey) {
  const auto with_value = [](float hidden) {
    AttentionProblem problem(28, Dtype::kF32, {10, 20, 2, 2, 16, 16});
    problem.Add({.bias = true});
    auto* bias = const_cast<float*>(problem.options.bias.data);
    for (int64_t i = 0; i < 2 * 10; ++i) {
      bias[i * 20 + 3] = -std::numeric_limits<float>::infinity();
    }
    std::fill_n(bias, 20, -std::numeric_limits<float>::infinity());  // row 0 of head 0: no keys
    std::fill_n(problem.value.as<float>() + 3 * 32, 32, hidden);
    std::vector<double> output = RunAlone(problem);
    if (std::isfinite(hidden)) {
      EXPECT_LE(reference::RelativeL2(output, problem.Expected()), 1e-6);
    }
    return output;
  };
  const std::vector<double> output = with_value(std::numeric_limits<float>::infinity());
  EXPECT_EQ(output, with_value(1.0f));
  EXPECT_EQ(std::count(output.begin(), output.begin() + 16, 0.0), 16);
}

TEST(ExtremesTest, ABiasOfMinusInfinityHidesANaNKey) {
  const auto with_key = [](float hidden) {
    AttentionProblem problem(33, Dtype::kF32, {10, 20, 2, 2, 16, 16});
    problem.Add({.shared_bias = true});
    auto* bias = const_cast<float*>(problem.options.bias.data);
    for (int64_t i = 0; i < 10; ++i) {
      bias[i * 20 + 3] = -std::numeric_limits<float>::infinity();
    }
    std::fill_n(problem.key.as<float>() + 3 * 32, 32, hidden);
    std::vector<double> output = RunAlone(problem);
    if (std::isfinite(hidden)) {
      EXPECT_LE(reference::RelativeL2(output, problem.Expected()), 1e-6);
    }
    return output;
  };
  EXPECT_EQ(with_key(std::numeric_limits<float>::quiet_NaN()), with_key(1.0f));
}

TEST(ExtremesTest, ANaNQueryGivesNaNAndHarmsNoOtherRow) {
  for (const Similarity similarity : {Similarity::kDotProduct, Similarity::kLinear}) {
    AttentionProblem clean(30, Dtype::kF32, {20, 600, 2, 2, 16, 16},
                           {.causal = true, .query_offset = -1, .similarity = similarity});
    const std::vector<double> expected = RunAlone(clean);
    AttentionProblem dirty(30, Dtype::kF32, {20, 600, 2, 2, 16, 16},
                           {.causal = true, .query_offset = -1, .similarity = similarity});
    for (const int64_t row : {0, 7}) {  // row 0 attends to no key
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

TEST(ExtremesTest, ANaNKeyGivesNaNToTheRowsThatAttendToIt) {
  const AttentionOptions kinds[] = {
      {.causal = true},
      {.causal = true, .similarity = Similarity::kGaussian, .bandwidth = 20},
      {.causal = true, .similarity = Similarity::kTriangular, .bandwidth = 9},
      {.causal = true, .similarity = Similarity::kLinear}};
  for (const AttentionOptions& kind : kinds) {
    AttentionProblem problem(41, Dtype::kF32, {90, 90, 2, 2, 16, 16}, kind);
    std::fill_n(problem.key.as<float>() + 20 * 32, 32, std::numeric_limits<float>::quiet_NaN());
    const std::vector<double> output = RunAlone(problem);
    for (int64_t i = 0; i < std::ssize(output); ++i) {
      ASSERT_EQ(std::isnan(output[i]), i / 32 >= 20) << i;
    }
  }
}

TEST(ExtremesTest, ATileOfNaNIsNotForgottenByTheNext) {
  AttentionProblem problem(31, Dtype::kF32, {4, 600, 2, 2, 16, 16});
  std::fill_n(problem.key.as<float>(), 512 * 32, std::numeric_limits<float>::quiet_NaN());
  for (const double value : RunAlone(problem)) {
    ASSERT_TRUE(std::isnan(value));
  }
}

TEST(ExtremesTest, HugeLogitsInDifferentTilesKeepTheirDifference) {
  AttentionProblem problem(32, Dtype::kF32, {1, 600, 1, 1, 16, 16}, {.scale = 1.0f});
  std::fill_n(problem.query.as<float>(), 16, 0.0f);
  problem.query.as<float>()[0] = 1;
  for (int64_t j = 0; j < 600; ++j) {
    problem.key.as<float>()[j * 16] = j == 0 ? 1e6f : j == 599 ? 1e6f + 1 : 0;
  }
  EXPECT_LE(reference::RelativeL2(RunAlone(problem), problem.Expected()), 1e-6);
}

TEST(ExtremesTest, ExtremeButFiniteOptionsAreComputed) {
  const AttentionOptions options[] = {{.similarity = Similarity::kGaussian, .bandwidth = 1e60},
                                      {.similarity = Similarity::kGaussian, .bandwidth = 1e-39},
                                      {.similarity = Similarity::kGaussian, .bandwidth = 1e-300},
                                      {.scale = 3e38f},
                                      {.scale = std::numeric_limits<float>::min()}};
  for (const AttentionOptions& option : options) {
    AttentionProblem problem(34, Dtype::kF32, {10, 600, 2, 2, 16, 16}, option);
    problem.Add({.mask = true});
    EXPECT_LE(reference::RelativeL2(RunAlone(problem), problem.Expected()), 1e-6)
        << "bandwidth " << option.bandwidth << ", scale " << option.scale.value_or(0);
  }
}

/// Multiplies all elements.
void Multiply(Tensor& tensor, float factor) {
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.as<float>()[i] *= factor;
  }
}

// They would count as 0.
TEST(ExtremesTest, DenormalOptionsAreRefused) {
  for (const auto& [options, text] :
       {std::pair(AttentionOptions{.scale = -3e-39f}, "sequence 0: scale: expected 0 or at least"),
        std::pair(AttentionOptions{.softcap = 1e-45f}, "sequence 0: softcap: expected 0 or at")}) {
    AttentionProblem problem(37, Dtype::kF32, {10, 60, 2, 2, 16, 16}, options);
    const AttentionSequence sequence = problem.Sequence();
    EXPECT_THAT(Validate({&sequence, 1}),
                StatusIs(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr(text)));
  }
  AttentionProblem smallest(37, Dtype::kF32, {10, 600, 2, 2, 16, 16},
                            {.scale = -std::numeric_limits<float>::min()});
  Multiply(smallest.query, 1e18f);
  Multiply(smallest.key, 1e18f);
  EXPECT_LE(reference::RelativeL2(RunAlone(smallest), smallest.Expected()), 1e-6);
}

#ifdef __SSE__
// Operations on them would take a hundred times as long as on others. Some tasks run on the calling
// thread, and some not.
TEST(ExtremesTest, DenormalNumbersCountAsZeroOnEveryThread) {
  AttentionProblem problem(41, Dtype::kF32, {130, 600, 2, 2, 16, 16}, {.causal = true});
  for (int64_t i = 0; i < problem.value.num_elements(); ++i) {
    problem.value.as<float>()[i] *= 1e-40f;
  }
  for (const int threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    Workspace workspace(pool);
    const AttentionSequence sequence = problem.Sequence();
    ASSERT_THAT(ScaledDotProductAttention({&sequence, 1}, workspace), IsOk());
    for (const double value : ToDoubles(problem.output)) {
      ASSERT_EQ(value, 0) << threads << " threads";
    }
  }
}
#endif

TEST(ExtremesTest, BandwidthsBeyondF32KeepTheirWeights) {
  for (const Similarity similarity :
       {Similarity::kGaussian, Similarity::kBox, Similarity::kTriangular}) {
    for (const float size : {1e-30f, 1e-19f, 1e19f, 1e30f}) {
      const double length = size;
      const double bandwidth =
          similarity == Similarity::kGaussian ? 20 * length * length : 5 * length;
      AttentionProblem problem(38, Dtype::kF32, {10, 600, 2, 2, 16, 16},
                               {.causal = true, .similarity = similarity, .bandwidth = bandwidth});
      Multiply(problem.query, size);
      Multiply(problem.key, size);
      EXPECT_LE(reference::RelativeL2(RunAlone(problem), problem.Expected()), 1e-6)
          << "similarity " << static_cast<int>(similarity) << ", size " << size;
    }
  }
}

TEST(ExtremesTest, TheSmallestBandwidthsLeaveAllTheWeightToAnEqualKey) {
  for (const Similarity similarity :
       {Similarity::kGaussian, Similarity::kBox, Similarity::kTriangular}) {
    for (const double bandwidth : {5e-324, 1e-310, 2.3e-308, 1e-300}) {
      AttentionProblem problem(41, Dtype::kF32, {1, 3, 1, 1, 1, 1},
                               {.similarity = similarity, .bandwidth = bandwidth});
      problem.query.as<float>()[0] = 1;
      const float keys[] = {2, 1, 1.0000001f};
      std::copy_n(keys, 3, problem.key.as<float>());
      EXPECT_EQ(RunAlone(problem)[0], problem.value.as<float>()[1])
          << "similarity " << static_cast<int>(similarity) << ", bandwidth " << bandwidth;
    }
  }
}

TEST(ExtremesTest, TheNearestOfFarKeysGetsAllTheWeight) {
  for (const double bandwidth : {1e-200, 1e-10, 1.0, 1e10, 1e12, 1e15, 1e30}) {
    for (const float distance : {1e10f, 1e17f, 4.5e17f, 1.5e19f, 3e19f, 1e25f, 1e38f}) {
      const double exponent = -std::pow(static_cast<double>(distance), 2) / bandwidth;
      if (exponent > -1000) {
        continue;  // the other key has a weight, too
      }
      AttentionProblem problem(40, Dtype::kF32, {1, 3, 1, 1, 1, 1},
                               {.similarity = Similarity::kGaussian, .bandwidth = bandwidth});
      problem.query.as<float>()[0] = 0;
      const float keys[] = {2 * distance, distance, std::numeric_limits<float>::infinity()};
      std::copy_n(keys, 3, problem.key.as<float>());
      AttentionSequence sequence = problem.Sequence();
      float log_sum_exp = 0;
      sequence.log_sum_exp = &log_sum_exp;
      ThreadPool pool(1);
      Workspace workspace(pool);
      ASSERT_THAT(ScaledDotProductAttention({&sequence, 1}, workspace), IsOk());
      EXPECT_EQ(problem.output.as<float>()[0], problem.value.as<float>()[1])
          << "bandwidth " << bandwidth << ", distance " << distance;
      const double expected = std::max<double>(exponent, std::numeric_limits<float>::lowest());
      EXPECT_NEAR(log_sum_exp / expected, 1, 1e-5)
          << "bandwidth " << bandwidth << ", distance " << distance;
    }
  }
}

TEST(ExtremesTest, LogitsBelowAllNumbersHaveNoWeight) {
  for (const int64_t rows : {3, 70}) {
    AttentionProblem steep(39, Dtype::kF32, {rows, 600, 2, 2, 16, 16}, {.causal = true});
    const float slopes[] = {3e38f, 1e30f};
    steep.options.alibi_slopes = slopes;
    EXPECT_LE(reference::RelativeL2(RunAlone(steep), steep.Expected()), 1e-6) << rows;
    AttentionProblem far(40, Dtype::kF32, {rows, 600, 2, 2, 16, 16}, {.causal = true});
    std::fill_n(far.query.as<float>(), far.query.num_elements(), 1.0f);
    std::fill_n(far.key.as<float>() + 5 * 32, 32, -3e38f);
    EXPECT_LE(reference::RelativeL2(RunAlone(far), far.Expected()), 2e-6) << rows;
  }
}

TEST(ExtremesTest, PositionsAtTheEndOfTheirRange) {
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

TEST(ExtremesTest, AHugeSinkLeavesNothing) {
  AttentionProblem problem(29, Dtype::kF32, {4, 20, 2, 2, 16, 16});
  const float sinks[] = {1000, -1000};
  problem.options.sinks = sinks;
  const std::vector<double> output = RunAlone(problem);
  EXPECT_LE(reference::RelativeL2(output, problem.Expected()), 1e-6);
  EXPECT_EQ(output[0], 0);
}

}  // namespace
}  // namespace attention
