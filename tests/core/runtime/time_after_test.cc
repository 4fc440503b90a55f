#include "core/runtime/time_after.h"

#include "gtest/gtest.h"

namespace attention {
namespace {

using std::chrono::steady_clock;

TEST(TimeAfterTest, IsLaterByTheDuration) {
  const steady_clock::time_point before = steady_clock::now();
  const steady_clock::time_point then = TimeAfter(absl::Hours(3));
  EXPECT_GE(then - before, std::chrono::hours(3));
  EXPECT_LE(then - steady_clock::now(), std::chrono::hours(3));
}

TEST(TimeAfterTest, IsTheLastTimeWhenTheClockCountsNoFurther) {
  const absl::Duration all = absl::FromChrono(std::chrono::nanoseconds::max());
  for (const absl::Duration duration : {absl::InfiniteDuration(), all, absl::Hours(1LL << 40)}) {
    EXPECT_EQ(TimeAfter(duration), steady_clock::time_point::max());
  }
}

TEST(TimeAfterTest, CanBeInThePast) { EXPECT_LT(TimeAfter(-absl::Hours(1)), steady_clock::now()); }

}  // namespace
}  // namespace attention
