#include "client/page/scale.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attention {
namespace {

using ::testing::DoubleEq;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;
using ::testing::SizeIs;

TEST(ScaleTest, LinearMapsEndsToEnds) {
  const Scale scale = Scale::Linear({0.0, 10.0}, {200.0, 100.0});
  EXPECT_DOUBLE_EQ(scale.At(0.0), 200.0);
  EXPECT_DOUBLE_EQ(scale.At(10.0), 100.0);
  EXPECT_DOUBLE_EQ(scale.At(12.0), 80.0);
}

TEST(ScaleTest, LogMapsFactorsToDistances) {
  const Scale scale = Scale::Log({1.0, 1000.0}, {0.0, 30.0});
  EXPECT_DOUBLE_EQ(scale.At(10.0), 10.0);
  EXPECT_DOUBLE_EQ(scale.At(100.0), 20.0);
  EXPECT_DOUBLE_EQ(scale.At(0.0), 0.0);
}

TEST(ScaleTest, LinearTicksAreRoundAndWithinTheRange) {
  EXPECT_THAT(LinearTicks({0.0, 97.0}, 6),
              ElementsAre(0.0, DoubleEq(20.0), DoubleEq(40.0), DoubleEq(60.0), DoubleEq(80.0)));
  EXPECT_THAT(LinearTicks({0.0, 0.3}, 4), Pointwise(DoubleNear(1e-12), {0.0, 0.1, 0.2, 0.3}));
  EXPECT_THAT(LinearTicks({-1.0, 1.0}, 3), ElementsAre(-1.0, 0.0, 1.0));
  EXPECT_THAT(LinearTicks({5.0, 5.0}, 3), ElementsAre(5.0));
}

TEST(ScaleTest, ANiceRangeHoldsTheDataAndEndsOnTicks) {
  const Range range = NiceRange({3.0, 97.0}, 6);
  EXPECT_DOUBLE_EQ(range.low, 0.0);
  EXPECT_DOUBLE_EQ(range.high, 100.0);
  EXPECT_DOUBLE_EQ(NiceRange({0.0, 100.0}, 6).high, 100.0);
  EXPECT_DOUBLE_EQ(NiceRange({-3.0, 1.0}, 5).low, -3.0);
  EXPECT_DOUBLE_EQ(NiceRange({0.0, 0.0}, 5).high, 1.0);
}

TEST(ScaleTest, LogTicksThinOut) {
  EXPECT_THAT(LogTicks({1.0, 20.0}, 6), ElementsAre(1.0, 2.0, 5.0, 10.0, 20.0));
  EXPECT_THAT(LogTicks({0.001, 100.0}, 6), SizeIs(6));
  EXPECT_THAT(LogTicks({1e-6, 1e6}, 5), SizeIs(5));
  EXPECT_THAT(LogTicks({3.0, 4.0}, 5), SizeIs(0));
}

}  // namespace
}  // namespace attention
