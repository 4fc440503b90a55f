#include "server/scheduling/fair_budget.h"

#include <vector>

#include "gmock/gmock.h"

namespace attention {
namespace {

using Parts = std::vector<std::unique_ptr<FairBudget::Part>>;

// Takes one after the other until none is given; returns how many.
int64_t TakeAll(FairBudget& budget, const std::string& holder, Parts& parts) {
  int64_t taken = 0;
  while (auto part = budget.Take(holder, 1)) {
    parts.push_back(std::move(part));
    ++taken;
  }
  return taken;
}

TEST(FairBudgetTest, OneAloneGetsHalfAndEachNextHalfOfTheRest) {
  FairBudget budget(64);
  Parts parts;
  EXPECT_EQ(TakeAll(budget, "a", parts), 32);
  EXPECT_EQ(TakeAll(budget, "b", parts), 16);
  EXPECT_EQ(TakeAll(budget, "c", parts), 8);
  EXPECT_EQ(budget.used(), 56);
}

TEST(FairBudgetTest, APartIsGivenBackWhenItEnds) {
  FairBudget budget(8);
  Parts parts;
  EXPECT_EQ(TakeAll(budget, "a", parts), 4);
  parts.clear();
  EXPECT_EQ(budget.used(), 0);
  EXPECT_EQ(TakeAll(budget, "b", parts), 4);
}

TEST(FairBudgetTest, NothingLargerThanHalfIsGiven) {
  FairBudget budget(8);
  EXPECT_EQ(budget.Take("a", 5), nullptr);
  EXPECT_EQ(budget.Take("a", int64_t{1} << 62), nullptr);
  EXPECT_NE(budget.Take("a", 4), nullptr);
}

TEST(FairBudgetTest, APartMayOutliveTheBudget) {
  std::unique_ptr<FairBudget::Part> part;
  {
    FairBudget budget(8);
    part = budget.Take("a", 1);
  }
  part.reset();
}

}  // namespace
}  // namespace attention
