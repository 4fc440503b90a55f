// The mathematics of the vector code on every instruction set: errors beside those promised, every
// length from none to three vectors, guard pages behind.
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/core/kernels/tile/guarded_array.h"
#include "tests/core/kernels/tile/instruction_sets.h"

namespace attention {
namespace {

using Limits = std::numeric_limits<float>;

/// |actual - expected| in units of expected's last place as a float.
double ErrorInUlp(float actual, long double expected) {
  const int exponent = std::max(std::ilogb(expected), Limits::min_exponent - 1);
  return static_cast<double>(std::abs(static_cast<long double>(actual) - expected) /
                             std::exp2(static_cast<long double>(exponent - 23)));
}

/// `count` numbers from `first` to `last` in equal steps.
std::vector<float> Between(float first, float last, int64_t count) {
  std::vector<float> numbers(count);
  for (int64_t i = 0; i < count; ++i) {
    numbers[i] = first + (last - first) * static_cast<float>(i) / static_cast<float>(count - 1);
  }
  return numbers;
}

std::vector<float> Map(MapFloats f, const std::vector<float>& source) {
  const GuardedArray<float> guarded(source);
  GuardedArray<float> target(std::ssize(source));
  f(guarded.data(), std::ssize(source), target.data());
  return target.ToVector();
}

/// The largest error over the numbers: error(x, f(x)).
template <typename Error>
double LargestError(MapFloats f, const std::vector<float>& numbers, const Error& error) {
  const std::vector<float> values = Map(f, numbers);
  double largest = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const double of_number = error(numbers[i], values[i]);
    largest = std::isnan(of_number) ? std::numeric_limits<double>::infinity()
                                    : std::max(largest, of_number);
  }
  return largest;
}

class VectorMathTest : public InstructionSetTest {};
INSTANTIATE_TEST_SUITE_P(All, VectorMathTest, ::testing::ValuesIn(InstructionSets()), SetName);

TEST_P(VectorMathTest, EveryLengthGivesTheBitsOfAWholeVector) {
  for (MapFloats f : {primitives().exp, primitives().power_of_two, primitives().rough_power_of_two,
                      primitives().tanh, primitives().erf}) {
    for (int64_t count = 0; count <= kThreeVectors; ++count) {
      std::vector<float> numbers = Between(-3, 3, kThreeVectors);
      std::vector<float> expected = Map(f, numbers);
      numbers.resize(count);
      expected.resize(count);
      ASSERT_EQ(Map(f, numbers), expected) << count;
    }
  }
}

// 2^x of softmax, whose constant factor cancels: 3 units for f32, 2e-4 for bf16.
TEST_P(VectorMathTest, PowerOfTwoKeepsToItsBound) {
  const std::vector<float> numbers = Between(-125, 127, 200001);
  EXPECT_LE(LargestError(primitives().power_of_two, numbers,
                         [](float x, float y) {
                           return ErrorInUlp(y, std::exp2(static_cast<long double>(x)));
                         }),
            3);
  EXPECT_LE(LargestError(primitives().rough_power_of_two, numbers,
                         [](float x, float y) {
                           return static_cast<double>(
                               std::abs(y / std::exp2(static_cast<long double>(x)) - 1));
                         }),
            2e-4);
}

TEST_P(VectorMathTest, PowerOfTwoAtTheEndsOfItsRange) {
  const std::vector<float> values =
      Map(primitives().power_of_two,
          {0, 1, -1, -126, -140, -200, -Limits::infinity(), Limits::quiet_NaN()});
  EXPECT_EQ(std::vector<float>(values.begin(), values.begin() + 3),
            (std::vector<float>{1, 2, 0.5f}));
  EXPECT_NEAR(values[3], 0, 0x1p-126) << "gradual underflow, or none";
  EXPECT_NEAR(values[4], 0, 0x1p-140);
  EXPECT_EQ(values[5], 0);
  EXPECT_EQ(values[6], 0);
  EXPECT_TRUE(std::isnan(values[7]));
}

// The exponent is rounded: three units, and 1.3 more for each of |x|.
TEST_P(VectorMathTest, ExpKeepsToItsBound) {
  EXPECT_LE(LargestError(primitives().exp, Between(-86, 88, 200001),
                         [](float x, float y) {
                           return ErrorInUlp(y, std::exp(static_cast<long double>(x))) /
                                  (3 + 1.3 * std::abs(static_cast<double>(x)));
                         }),
            1);
  const std::vector<float> ends = Map(
      primitives().exp, {-200, -Limits::infinity(), 1000, Limits::infinity(), Limits::quiet_NaN()});
  EXPECT_EQ(ends[0], 0);
  EXPECT_EQ(ends[1], 0);
  EXPECT_GE(ends[2], 0x1p126f);
  EXPECT_GE(ends[3], 0x1p126f);
  EXPECT_TRUE(std::isnan(ends[4]));
}

TEST_P(VectorMathTest, TanhKeepsToItsBound) {
  const auto error = [](float x, float y) {
    return ErrorInUlp(y, std::tanh(static_cast<long double>(x)));
  };
  EXPECT_LE(LargestError(primitives().tanh, Between(-12, 12, 200001), error), 4);
  EXPECT_LE(LargestError(primitives().tanh, {0x1p-126f, -0x1p-60f, 1e-10f, 1e-3f}, error), 1);
  const std::vector<float> ends =
      Map(primitives().tanh, {0, Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN()});
  EXPECT_EQ(ends[0], 0);
  EXPECT_EQ(ends[1], 1);
  EXPECT_EQ(ends[2], -1);
  EXPECT_TRUE(std::isnan(ends[3]));
}

TEST_P(VectorMathTest, ErfKeepsToItsBound) {
  const auto error = [](float x, float y) {
    return ErrorInUlp(y, std::erf(static_cast<long double>(x)));
  };
  EXPECT_LE(LargestError(primitives().erf, Between(-6, 6, 200001), error), 7);
  EXPECT_LE(LargestError(primitives().erf, {0x1p-126f, -0x1p-60f, 1e-10f, 1e-3f, -0.1f}, error), 3);
  EXPECT_EQ(Map(primitives().erf, {Limits::infinity(), -Limits::infinity(), 0}),
            (std::vector<float>{1, -1, 0}));
  EXPECT_TRUE(std::isnan(Map(primitives().erf, {Limits::quiet_NaN()})[0]));
}

TEST_P(VectorMathTest, TheLargerOfTwoIsTheSecondWhereOneIsNan) {
  const float nan = Limits::quiet_NaN();
  const std::vector<std::pair<float, float>> operands = {
      {1, 2},  {2, 1}, {nan, 1}, {1, nan}, {nan, -Limits::infinity()}, {Limits::infinity(), nan},
      {-1, -2}};
  GuardedArray<float> a(kThreeVectors);
  GuardedArray<float> b(kThreeVectors);
  GuardedArray<float> larger(kThreeVectors);
  for (size_t shift = 0; shift < operands.size(); ++shift) {  // each kind in each lane
    for (int64_t i = 0; i < kThreeVectors; ++i) {
      std::tie(a[i], b[i]) = operands[(i + shift) % operands.size()];
    }
    primitives().larger(a.data(), b.data(), kThreeVectors, larger.data());
    for (int64_t i = 0; i < kThreeVectors; ++i) {
      if (std::isnan(b[i])) {
        ASSERT_TRUE(std::isnan(larger[i])) << i;
      } else {
        ASSERT_EQ(larger[i], std::isnan(a[i]) ? b[i] : std::max(a[i], b[i])) << i;
      }
    }
  }
}

TEST_P(VectorMathTest, MaxOfEveryLength) {
  for (int64_t count = 0; count <= 2 * kThreeVectors; ++count) {
    for (int64_t at = 0; at < count; ++at) {
      GuardedArray<float> numbers(std::vector<float>(count, -7.0f));
      numbers[at] = -3;
      ASSERT_EQ(primitives().max(numbers.data(), count), -3) << at << " of " << count;
    }
  }
  const float nothing = 0;
  EXPECT_EQ(primitives().max(&nothing, 0), -Limits::infinity());
}

// A NaN does not win, and hides nothing that comes after it: softmax finds it in the sum.
TEST_P(VectorMathTest, SoftmaxOfARowWithNanIsNan) {
  for (int64_t count = 1; count <= 2 * kThreeVectors; ++count) {
    for (int64_t at = 0; at < count; at += 5) {
      const int64_t cols = (count + 15) / 16 * 16;
      GuardedArray<float> scores(std::vector<float>(cols, 1.0f));
      scores[at] = Limits::quiet_NaN();
      float row_max = -Limits::infinity();
      float row_sum = 0;
      float accumulator[16] = {};
      kernels().softmax({.processor = kProcessors[0],
                         .scores = scores.data(),
                         .stride = cols,
                         .rows = 1,
                         .cols = cols,
                         .visible_end = &count,
                         .scale_log2e = 1,
                         .row_max = &row_max,
                         .row_sum = &row_sum,
                         .accumulator = accumulator,
                         .accumulator_cols = 16,
                         .is_first = true});
      ASSERT_TRUE(std::isnan(row_sum)) << at << " of " << count;
    }
  }
}

// Softmax computes 2^x in two ways on AVX-512, and the processor's maker decides which one. Both
// run here, whoever made it.
TEST(PowerOfTwoOnIntelTest, HasTheBitsOfTheOtherWay) {
  std::vector<float> numbers = Between(-170, 127, 200001);
  for (int k = -320; k < 254; ++k) {  // integers, and the middle of two
    numbers.push_back(0.5f * static_cast<float>(k));
  }
  numbers.insert(numbers.end(), {-0.0f, -1e6f, Limits::lowest(), -Limits::infinity()});
  int sets = 0;
  for (const InstructionSet& set : InstructionSets()) {
    const VectorPrimitives& primitives = *set.primitives;
    if (primitives.power_of_two_on_intel == nullptr || !set.in_processor) {
      continue;
    }
    ++sets;
    const std::pair<MapFloats, MapFloats> pairs[] = {
        {primitives.power_of_two_on_intel, primitives.power_of_two},
        {primitives.rough_power_of_two_on_intel, primitives.rough_power_of_two}};
    for (const auto& [on_intel, other] : pairs) {
      EXPECT_EQ(Map(on_intel, numbers), Map(other, numbers)) << set.name;
      EXPECT_TRUE(std::isnan(Map(on_intel, {Limits::quiet_NaN()}).front())) << set.name;
    }
  }
  if (sets == 0) {
    GTEST_SKIP() << "the processor has no AVX-512";
  }
}

}  // namespace
}  // namespace attention
