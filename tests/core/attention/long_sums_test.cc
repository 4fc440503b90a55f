// What the number of keys does to the error of a row: nothing where keys are independent, and no
// more than the roundings allow where they are equal.
#include <algorithm>
#include <cmath>
#include <string>

#include "gtest/gtest.h"
#include "tests/support/attention_problem.h"
#include "tests/support/golden.h"

namespace attention {
namespace {

class LongSumsTest : public ::testing::TestWithParam<int64_t> {
 protected:
  int64_t num_keys() const { return GetParam(); }
  AttentionProblem problem_{5, Dtype::kF32, {1, GetParam(), 4, 4, 64, 64}};
};

INSTANTIATE_TEST_SUITE_P(Keys, LongSumsTest, ::testing::Values(300, 4000, 16384),
                         ::testing::PrintToStringParamName());

TEST_P(LongSumsTest, IndependentKeysKeepTheTolerance) {
  EXPECT_LE(reference::RelativeL2(RunAlone(problem_), problem_.Expected()),
            reference::kAttentionToleranceF32);
}

// Chains of 256 multiply-adds, then n / 256 additions: so often is a sum of equal terms rounded,
// each time by at most 2^-24 of what it is then, and in the worst case always the same way.
TEST_P(LongSumsTest, EqualKeysKeepTheBoundOfTheirRoundings) {
  for (Tensor* tensor : {&problem_.key, &problem_.value}) {
    const int64_t width = 4 * 64;
    for (int64_t key = 1; key < num_keys(); ++key) {
      std::copy_n(tensor->as<float>(), width, tensor->as<float>() + key * width);
    }
  }
  const double roundings = 256 + static_cast<double>(num_keys()) / 256;
  EXPECT_LE(reference::RelativeL2(RunAlone(problem_), problem_.Expected()),
            roundings * std::exp2(-24));
}

}  // namespace
}  // namespace attention
