#include "server/scheduling/gate.h"

#include <thread>

#include "gtest/gtest.h"

namespace attention {
namespace {

TEST(GateTest, LetsNobodyInAfterClose) {
  Gate gate;
  EXPECT_TRUE(gate.TryEnter());
  gate.Close();
  EXPECT_FALSE(gate.TryEnter());
}

TEST(GateTest, IsEmptyAtFirst) {
  Gate gate;
  EXPECT_TRUE(gate.WaitUntilEmpty(TimePoint::max()));
}

TEST(GateTest, GivesUpAtTheDeadline) {
  Gate gate;
  ASSERT_TRUE(gate.TryEnter());
  EXPECT_FALSE(gate.WaitUntilEmpty(std::chrono::steady_clock::now()));
}

TEST(GateTest, WaitsForTheLastToLeave) {
  Gate gate;
  ASSERT_TRUE(gate.TryEnter());
  ASSERT_TRUE(gate.TryEnter());
  gate.Close();
  std::thread leaver([&] {
    gate.Leave();
    gate.Leave();
  });
  EXPECT_TRUE(gate.WaitUntilEmpty(TimePoint::max()));
  leaver.join();
}

}  // namespace
}  // namespace attention
