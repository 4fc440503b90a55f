#include "server/scheduling/deadline_probes.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace attention {
namespace {

const TimePoint kFirstLook = TimePoint(std::chrono::hours(1));

TEST(DeadlineProbesTest, EachAccountHasOneInAnInterval) {
  DeadlineProbes probes;
  EXPECT_TRUE(probes.Take("greedy", kFirstLook));
  EXPECT_FALSE(probes.Take("greedy", kFirstLook));
  EXPECT_TRUE(probes.Take("modest", kFirstLook)) << "nobody uses up another's";
  EXPECT_FALSE(
      probes.Take("greedy", kFirstLook + DeadlineProbes::kInterval - TimePoint::duration(1)));
  EXPECT_TRUE(probes.Take("greedy", kFirstLook + DeadlineProbes::kInterval));
}

TEST(DeadlineProbesTest, RemembersSoManyAccountsAtMost) {
  DeadlineProbes probes;
  for (size_t i = 0; i < DeadlineProbes::kMaxAccounts; ++i) {
    EXPECT_TRUE(probes.Take(absl::StrCat(i), kFirstLook));
  }
  EXPECT_FALSE(probes.Take("one more", kFirstLook));
  EXPECT_TRUE(probes.Take("one more", kFirstLook + DeadlineProbes::kInterval));
}

}  // namespace
}  // namespace attention
