// Large work beside computing: in which order, and who waits for whom.
#include "server/scheduling/side_pool.h"

#include <atomic>
#include <chrono>
#include <future>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "tests/support/eventually.h"

namespace attention {
namespace {

using ::testing::ElementsAre;

/// A pool of one thread, which a first task occupies until Release.
class SidePoolTest : public ::testing::Test {
 protected:
  SidePoolTest() {
    pool_.Run({"occupant", 1, [this] { released_.get_future().wait(); }});
    EXPECT_TRUE(Eventually([&] { return pool_.waiting() == 0; }));
  }
  void Give(const std::string& owner, int64_t cost, const std::string& name) {
    pool_.Run({owner, cost, [this, name] { Note(name); }});
  }
  void Note(const std::string& name) {
    MutexLock lock(mutex_);
    names_.push_back(name);
  }
  /// What ran, once there are so many. A test that has failed waits no longer.
  std::vector<std::string> Wait(size_t count) {
    EXPECT_TRUE(Eventually([&] { return Names().size() >= count || HasFailure(); }));
    return Names();
  }
  std::vector<std::string> Names() {
    MutexLock lock(mutex_);
    return names_;
  }

  Mutex mutex_;
  std::vector<std::string> names_ ABSL_GUARDED_BY(mutex_);
  std::promise<void> released_;
  SidePool pool_{1};
};

TEST_F(SidePoolTest, ASmallTaskPassesLargeOnesOfAnotherOwner) {
  Give("a", 1000, "a1");
  Give("a", 1000, "a2");
  Give("b", 10, "b1");
  released_.set_value();
  EXPECT_THAT(Wait(3), ElementsAre("b1", "a1", "a2"));
}

TEST_F(SidePoolTest, OwnersWhoCameOnceAreForgotten) {
  for (int i = 0; i < 3000; ++i) {
    Give(std::to_string(i), 10, "");
  }
  EXPECT_EQ(pool_.owners(), 3001) << "their tasks wait";
  released_.set_value();
  Wait(3000);
  EXPECT_TRUE(Eventually([&] {
    Give("last", 1, "");
    return pool_.owners() <= 2;
  }));
}

TEST_F(SidePoolTest, OwnersAreBoundedWhileThePoolIsBusy) {
  for (int i = 0; i < 70000; ++i) {
    Give(std::to_string(i), 10, "");
  }
  released_.set_value();
  Wait(70000);
  EXPECT_LE(pool_.owners(), 65537);
}

TEST_F(SidePoolTest, WhateverCostIsClaimedTheNextOwnersComeFirst) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < 3; ++i) {
    Give("a", kMost / 2, "a");
    Give("a", kMost, "a");
  }
  Give("a", -1, "a");
  Give("b", 1, "b");
  released_.set_value();
  const std::vector<std::string> names = Wait(8);
  ASSERT_EQ(names.size(), 8u);
  EXPECT_EQ(names.front(), "b");
}

TEST_F(SidePoolTest, TasksOfOneOwnerRunInTheirOrder) {
  Give("a", 1000, "large");
  Give("a", 1, "small");
  Give("a", 100, "medium");
  released_.set_value();
  EXPECT_THAT(Wait(3), ElementsAre("large", "small", "medium"));
}

TEST_F(SidePoolTest, OwnersShareByWhatTheirTasksCost) {
  for (const char* const name : {"a1", "a2", "a3", "a4"}) {
    Give("a", 100, name);
  }
  Give("b", 200, "b1");
  Give("b", 200, "b2");
  released_.set_value();
  EXPECT_THAT(Wait(6), ElementsAre("a1", "a2", "b1", "a3", "a4", "b2"));
}

TEST_F(SidePoolTest, ALongTaskLetsSmallerOnesOfOthersPassWhereItYields) {
  pool_.Run({"a", 1000, [this] {
               Note("begin");
               Give("b", 400, "b");
               Give("c", 501, "more than half");
               Give("a", 1, "own");
               pool_.Yield();
               Note("end");
             }});
  released_.set_value();
  EXPECT_THAT(Wait(5), ElementsAre("begin", "b", "end", "more than half", "own"));
}

TEST_F(SidePoolTest, YieldOutsideATaskOfThePoolDoesNothing) {
  Give("a", 1, "a");
  pool_.Yield();  // here nothing runs
  EXPECT_THAT(Names(), ElementsAre());
  SidePool other(1);
  std::atomic<bool> has_yielded = false;
  other.Run({"b", 1000, [&] {
               pool_.Yield();
               has_yielded = true;
             }});
  EXPECT_TRUE(Eventually([&] { return has_yielded.load(); }));
  EXPECT_THAT(Names(), ElementsAre());
  released_.set_value();
  EXPECT_THAT(Wait(1), ElementsAre("a"));
}

TEST(SidePoolThreadsTest, TasksOfOneOwnerRunSideBySide) {
  std::promise<void> first, second;
  std::atomic<int> met = 0, ended = 0;
  const auto meet = [&](std::promise<void>& own, std::promise<void>& other) {
    own.set_value();
    met += other.get_future().wait_for(std::chrono::minutes(1)) == std::future_status::ready;
    ++ended;
  };
  SidePool pool(2);
  pool.Run({"a", 1, [&] { meet(first, second); }});
  pool.Run({"a", 1, [&] { meet(second, first); }});
  EXPECT_TRUE(Eventually([&] { return ended == 2; }));
  EXPECT_EQ(met, 2);
}

TEST(SidePoolEndTest, WhatWasGivenRunsBeforeTheEnd) {
  std::atomic<int> runs = 0;
  {
    SidePool pool(2);
    for (int i = 0; i < 3000; ++i) {
      pool.Run({std::to_string(i), i, [&] { ++runs; }});
    }
  }
  EXPECT_EQ(runs, 3000);
}

TEST(SidePoolEndTest, WhatATaskHoldsGoesWhenItHasRun) {
  SidePool pool(1);
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> seen = held;
  pool.Run({"a", 1, [held = std::move(held)] {}});
  EXPECT_TRUE(Eventually([&] { return seen.expired(); }));
}

}  // namespace
}  // namespace attention
