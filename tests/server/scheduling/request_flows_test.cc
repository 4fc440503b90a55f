// The order of tenants: whose turn is next, and which tenants are remembered.
#include "server/scheduling/request_flows.h"

#include <chrono>
#include <memory>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/server/scheduling/estimated_queue.h"

namespace attention {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FlowOrderTest : public EstimatedQueueTest {
 protected:
  void TakeThis(const std::shared_ptr<Job>& job) {
    const auto taken = queue_.Take(
        [&](const Job& other, const RequestQueue::Standing&) { return &other == job.get(); });
    EXPECT_THAT(taken, ElementsAre(job));
  }
};

TEST_F(FlowOrderTest, WhoComesLateIsBehindWhatHasHadItsTurn) {
  const auto b1 = PushOf({.tenant = "b"}, 5);
  const auto b2 = PushOf({.tenant = "b"}, 5);
  const auto b3 = PushOf({.tenant = "b"}, 5);
  const auto a1 = PushOf({.tenant = "a"}, 20);
  const auto a2 = PushOf({.tenant = "a"}, 20);
  TakeThis(a2);  // as a batch of another key does
  TakeThis(b1);
  const auto late = PushOf({.tenant = "c"}, 5);
  EXPECT_THAT(TakeAll(queue_), ElementsAre(a1, b2, b3, late)) << "it came when a2 ran";
}

TEST_F(FlowOrderTest, AnEmptyQueueForgetsWhatTenantsHad) {
  PushOf({.tenant = "a"}, 100);
  TakeOne();
  const auto dead = PushOf({.tenant = "x"}, 1);
  dead->Cancel();
  EXPECT_FALSE(PushDue(milliseconds(-1), 1).ok()) << "and removes those that nobody waits for";
  EXPECT_THAT(TakeAll(queue_), ElementsAre(dead));
  const auto a = PushOf({.tenant = "a"}, 10);
  const auto b = PushOf({.tenant = "b"}, 10);
  EXPECT_THAT(TakeAll(queue_), ElementsAre(a, b));
}

TEST_F(FlowOrderTest, AnAccountHasItsNumberOfFlowsAndNoMore) {
  for (int i = 0; i < RequestFlows::kMaxFlowsOfAccount + 4; ++i) {
    PushOf({.tenant = absl::StrCat("name ", i), .account = "greedy"}, 10);
  }
  const auto modest = PushOf({.account = "modest"}, 10);
  int before = 0;
  while (TakeOne() != modest) {
    ++before;
  }
  EXPECT_EQ(before, RequestFlows::kMaxFlowsOfAccount);
}

TEST_F(FlowOrderTest, OnlyThePartOfAFlowThatComesFirstIsWaitedFor) {
  PushOf({.tenant = "a"}, 100);
  PushOf({.tenant = "b"}, 50);
  EXPECT_THAT(PushDue(milliseconds(101), 50, {.tenant = "b"}),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("would wait about 100 ms")));
}

TEST(RequestFlowsTest, AreForgottenWhenTheyAreMany) {
  RequestFlows flows;
  const auto caller = [](int i) { return RequestClass{.account = absl::StrCat("account ", i)}; };
  for (int i = 0; i < 10'000; ++i) {
    flows.Enter(caller(i))->second.last_finish = i + 1;
  }
  int known = 0;
  for (int i = 0; i < 10'000; ++i) {
    known += flows.Find(caller(i)) != nullptr ? 1 : 0;
  }
  EXPECT_LE(known, 4097);
  EXPECT_GE(known, 2048) << "half of them at a time";
  EXPECT_NE(flows.Find(caller(9'999)), nullptr) << "the one that has had most is remembered";
}

TEST(RequestFlowsTest, ThoseOfAnAccountGoWhenTheyAreReached) {
  RequestFlows flows;
  flows.Enter({.tenant = "old", .account = "a"})->second.last_finish = 1;
  flows.set_virtual_time(1);
  flows.Enter({.tenant = "new", .account = "a"});
  EXPECT_EQ(flows.Find({.tenant = "old", .account = "a"}), nullptr);
}

TEST(RequestFlowsTest, ThoseThatAreReachedLeaveRoomForOtherNames) {
  RequestFlows flows;
  for (int i = 0; i < RequestFlows::kMaxFlowsOfAccount; ++i) {
    flows.Enter({.tenant = absl::StrCat(i), .account = "a"})->second.last_finish = 1;
  }
  flows.set_virtual_time(1);
  EXPECT_EQ(std::get<2>(flows.Enter({.tenant = "new", .account = "a"})->first), "new")
      << "not the flow that names beyond the last share";
}

}  // namespace
}  // namespace attention
