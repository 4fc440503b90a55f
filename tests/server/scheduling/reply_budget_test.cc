#include "server/scheduling/reply_budget.h"

#include "gtest/gtest.h"

namespace attention {
namespace {

const TimePoint kStart = TimePoint() + std::chrono::hours(1);

class ReplyBudgetTest : public ::testing::Test {
 protected:
  std::shared_ptr<HeldReply> Take(int64_t bytes, TimePoint now = kStart) {
    return TakeFor("", bytes, now);
  }
  std::shared_ptr<HeldReply> TakeFor(const std::string& account, int64_t bytes,
                                     TimePoint now = kStart) {
    return budget_.Take(account, bytes, [this] { ++given_up_; }, now);
  }

  ReplyBudget budget_{100, std::chrono::seconds(30)};
  int given_up_ = 0;
};

TEST_F(ReplyBudgetTest, CountsUntilAPartIsGone) {
  auto one = Take(60);
  EXPECT_EQ(Take(50), nullptr);
  const auto other = Take(40);
  EXPECT_NE(other, nullptr);
  EXPECT_EQ(budget_.used_bytes(), 100);
  one.reset();
  EXPECT_EQ(budget_.used_bytes(), 40);
  EXPECT_NE(Take(60), nullptr);
}

TEST_F(ReplyBudgetTest, AnythingFitsAlone) {
  auto large = Take(1000);
  ASSERT_NE(large, nullptr);
  EXPECT_EQ(Take(1), nullptr);
  large.reset();
  EXPECT_NE(Take(1), nullptr);
}

TEST_F(ReplyBudgetTest, WhoDoesNotTakeAReplyMakesRoomForOthersAndOnlyThen) {
  const auto slow = Take(60);
  const auto computing = Take(20);
  slow->SetComputed(kStart);
  const TimePoint late = kStart + std::chrono::seconds(30);
  EXPECT_EQ(Take(30, late - std::chrono::seconds(1)), nullptr);
  EXPECT_EQ(given_up_, 0) << "it has time";
  EXPECT_NE(Take(20, late), nullptr);
  EXPECT_EQ(given_up_, 0) << "there is room";
  EXPECT_EQ(Take(30, late), nullptr);
  EXPECT_EQ(given_up_, 1);
  EXPECT_EQ(Take(30, late), nullptr);
  EXPECT_EQ(given_up_, 1) << "once";
}

TEST_F(ReplyBudgetTest, AnAccountLeavesRoomForAnother) {
  std::vector<std::shared_ptr<HeldReply>> parts;
  for (int i = 0; i < 100; ++i) {
    if (auto part = TakeFor("greedy", 1)) {
      parts.push_back(std::move(part));
    }
  }
  EXPECT_GE(parts.size(), 85) << "nearly everything";
  EXPECT_LT(parts.size(), 95);
  EXPECT_FALSE(budget_.HasRoom("greedy"));
  EXPECT_TRUE(budget_.HasRoom("modest"));
  EXPECT_NE(TakeFor("modest", 5), nullptr);
  EXPECT_EQ(budget_.bytes_of("modest"), 0) << "it is gone again";
  parts.clear();
  EXPECT_EQ(budget_.used_bytes(), 0);
  EXPECT_NE(TakeFor("greedy", 100), nullptr);
}

TEST(HeldReplyTest, MayOutliveItsBudget) {
  auto budget = std::make_unique<ReplyBudget>(10, std::chrono::seconds(30));
  const auto part = budget->Take("", 5, [] {}, kStart);
  budget.reset();
  part->SetComputed(kStart);
}

}  // namespace
}  // namespace attention
