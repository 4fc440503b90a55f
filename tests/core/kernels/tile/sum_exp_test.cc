// A sum of exponentials against double precision: of every length from none to three vectors with
// a guard page behind, of a vocabulary, and of numbers that are not finite.
#include "core/kernels/tile/sum_exp.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "tests/core/kernels/tile/guarded_array.h"

namespace attention {
namespace {

constexpr float kInfinite = std::numeric_limits<float>::infinity();

TEST(SumExpTest, EachTermIsThatOfDoublePrecision) {
  for (float x = -86; x <= 0; x += 1.0f / 128) {
    const double exact = std::exp(static_cast<double>(x));
    EXPECT_NEAR(SumExp({{x}}, 0), exact, 2e-7 * exact) << x;
  }
}

TEST(SumExpTest, EveryLengthUpToThreeVectors) {
  for (int64_t count = 0; count <= 48; ++count) {
    GuardedArray<float> values(count);
    double exact = 0;
    for (int64_t i = 0; i < count; ++i) {
      values[i] = 2 - static_cast<float>(i * 37 % 23);
      exact += std::exp(static_cast<double>(values[i]) - 2);
    }
    EXPECT_NEAR(SumExp({values.data(), static_cast<size_t>(count)}, 2), exact, 2e-7 * exact)
        << count;
  }
}

TEST(SumExpTest, AddsAVocabularyAsDoublePrecisionDoes) {
  std::vector<float> logits(50257);
  uint32_t state = 1;
  for (float& logit : logits) {
    state = state * 1664525u + 1013904223u;
    logit = static_cast<float>(state >> 8) / 65536.0f - 128.0f;
  }
  const float largest = *std::max_element(logits.begin(), logits.end());
  double exact = 0;
  for (const float logit : logits) {
    exact += std::exp(static_cast<double>(logit) - largest);
  }
  EXPECT_NEAR(SumExp(logits, largest), exact, 2e-7 * exact);
}

TEST(SumExpTest, WhatIsFarBelowCountsNothing) {
  const float values[] = {3, -200, -kInfinite, 3};
  EXPECT_EQ(SumExp(values, 3), 2.0);
}

TEST(SumExpTest, IsNanWhereThereIsNoLargestOrNoNumber) {
  const float values[] = {-kInfinite, -kInfinite};
  EXPECT_TRUE(std::isnan(SumExp(values, -kInfinite)));
  const float with_nan[] = {1, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_TRUE(std::isnan(SumExp(with_nan, 1)));
}

}  // namespace
}  // namespace attention
