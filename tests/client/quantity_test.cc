#include "client/page/quantity.h"

#include <limits>

#include "gtest/gtest.h"

namespace attention {
namespace {

TEST(QuantityTest, ChoosesTheUnitPeopleWould) {
  EXPECT_EQ(QuantityText(0.00125, Unit::kSeconds), "1.25 ms");
  EXPECT_EQ(QuantityText(0.0000042, Unit::kSeconds), "4.2 \u00b5s");
  EXPECT_EQ(QuantityText(75.0, Unit::kSeconds), "75 s");
  EXPECT_EQ(QuantityText(1536.0, Unit::kBytes), "1.5 KiB");
  EXPECT_EQ(QuantityText(1234567.0, Unit::kNumber), "1.23M");
  EXPECT_EQ(QuantityText(-2500.0, Unit::kNumber), "-2.5k");
  EXPECT_EQ(QuantityText(0.1234, Unit::kShare), "12.3%");
  EXPECT_EQ(QuantityText(0.00004, Unit::kNumber), "0.00004");
}

TEST(QuantityTest, ChoosesTheUnitOfWhatIsShown) {
  EXPECT_EQ(QuantityText(999.96, Unit::kNumber), "1k");
  EXPECT_EQ(QuantityText(0.00099999, Unit::kSeconds), "1 ms");
  EXPECT_EQ(QuantityText(999.0, Unit::kNumber), "999");
}

TEST(QuantityTest, NothingIsZeroAndWhatIsNoNumberADash) {
  EXPECT_EQ(QuantityText(0.0, Unit::kSeconds), "0");
  EXPECT_EQ(QuantityText(0.0, Unit::kShare), "0%");
  EXPECT_EQ(QuantityText(std::numeric_limits<double>::quiet_NaN(), Unit::kSeconds), "-");
}

}  // namespace
}  // namespace attention
