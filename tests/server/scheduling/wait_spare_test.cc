#include "server/scheduling/wait_spare.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace attention {
namespace {

using std::chrono::milliseconds;

constexpr TimePoint kNow = TimePoint(std::chrono::hours(1));

TEST(WaitSpareTest, GrowsWithLateEndsAndShrinksWithOthers) {
  WaitSpare spare;
  spare.CountEnd("a", false, kNow);
  EXPECT_EQ(spare.ShareOf("a", kNow), 0);
  for (int i = 0; i < 25; ++i) {
    spare.CountEnd("a", true, kNow);
  }
  EXPECT_NEAR(spare.ShareOf("a", kNow), 0.5, 1e-9);
  EXPECT_EQ(spare.ShareOf("b", kNow), 0) << "each account has its own";
  for (int i = 0; i < 100; ++i) {
    spare.CountEnd("a", true, kNow);
  }
  EXPECT_EQ(spare.ShareOf("a", kNow), 1);
  for (int i = 0; i < 500; ++i) {
    spare.CountEnd("a", false, kNow);
  }
  EXPECT_NEAR(spare.ShareOf("a", kNow), 0.5, 1e-9);
  for (int i = 0; i < 501; ++i) {
    spare.CountEnd("a", false, kNow);
  }
  EXPECT_EQ(spare.ShareOf("a", kNow), 0);
}

TEST(WaitSpareTest, ForgetsAnAccountOfWhichNothingEnds) {
  WaitSpare spare;
  for (int i = 0; i < 5; ++i) {
    spare.CountEnd("a", true, kNow);
  }
  const TimePoint later = kNow + WaitSpare::kMemory + milliseconds(1);
  EXPECT_EQ(spare.ShareOf("a", later), 0);
  spare.CountEnd("a", true, later);
  EXPECT_NEAR(spare.ShareOf("a", later), 0.02, 1e-9);
}

TEST(WaitSpareTest, KnowsABoundedNumberOfAccounts) {
  WaitSpare spare;
  for (size_t i = 0; i < WaitSpare::kMaxAccounts; ++i) {
    spare.CountEnd(absl::StrCat(i), true, kNow);
  }
  spare.CountEnd("one more", true, kNow);
  EXPECT_EQ(spare.ShareOf("one more", kNow), 0);
  const TimePoint later = kNow + WaitSpare::kMemory + milliseconds(1);
  spare.CountEnd("one more", true, later);
  EXPECT_GT(spare.ShareOf("one more", later), 0);
}

}  // namespace
}  // namespace attention
