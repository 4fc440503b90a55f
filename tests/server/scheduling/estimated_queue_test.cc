// A queue that knows how long its requests take: refusals, turns and shares.
#include "tests/server/scheduling/estimated_queue.h"

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "server/scheduling/refusal.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(EstimatedQueueTest, RefusesMoreWorkThanMayWaitAndSaysWhenToTryAgain) {
  PushOf({}, 500);
  PushOf({}, 400);
  const absl::Status status = Push(queue_, FakeJob::Make(), Takes(200));
  EXPECT_THAT(
      status,
      StatusIs(absl::StatusCode::kResourceExhausted,
               "the queue is full: the waiting requests take about 900 ms, this request 200 "
               "ms more; the maximum is 1000 ms (--max-queue-wait)"));
  const std::optional<Refusal> refusal = RefusalOf(status);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->estimated_wait_ms, 900);
  EXPECT_EQ(refusal->retry_after_ms, 450) << "when half of it is done";
  EXPECT_EQ(queue_.state().requests, 2);
  EXPECT_EQ(queue_.state().work_ns, 900 * kMillisecond);
}

TEST_F(EstimatedQueueTest, TellsThoseRefusedTogetherToComeBackOneAfterTheOther) {
  PushOf({}, 500);
  PushOf({}, 400);
  std::vector<int64_t> retries_ms;
  for (int i = 0; i < 8; ++i) {
    retries_ms.push_back(RefusalOf(Push(queue_, FakeJob::Make(), Takes(200)))->retry_after_ms);
  }
  EXPECT_THAT(retries_ms, ElementsAre(450, 650, 850, 1050, 1250, 1450, 1450, 1450));
  const auto other = FakeJob::Make({.request_class = {.account = "another"}});
  EXPECT_LE(RefusalOf(Push(queue_, other, Takes(200)))->retry_after_ms, 450);
}

TEST_F(EstimatedQueueTest, RefusesARequestThatCouldNotMeetItsDeadlineAlone) {
  EXPECT_THAT(PushDue(std::chrono::milliseconds(30), 40),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       "the request takes about 40 ms, its deadline is in 30 ms"));
}

TEST_F(EstimatedQueueTest, RefusesARequestWhoseDeadlineHasPassed) {
  EXPECT_THAT(PushDue(std::chrono::milliseconds(-1), 40),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       "the deadline passed before the request was queued"));
}

TEST_F(EstimatedQueueTest, RefusesARequestThatWouldWaitTooLongForItsDeadline) {
  PushOf({}, 50);
  EXPECT_THAT(PushDue(std::chrono::milliseconds(80), 40),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "the request would wait about 50 ms and take 40 ms, its deadline is in 80 "
                       "ms"));
  EXPECT_THAT(PushDue(std::chrono::milliseconds(90), 40), IsOk());
}

TEST_F(EstimatedQueueTest, AnAccountWhoseRequestsEndLateNeedsTimeToSpare) {
  const RequestClass late = {.account = "late"};
  PushOf(late, 400);
  const auto ended = FakeJob::Make({.request_class = late, .deadline = kNow});
  for (int i = 0; i < 60; ++i) {
    queue_.CountEnd(*ended, /*is_late=*/true, kNow);
  }
  EXPECT_THAT(PushDue(std::chrono::milliseconds(539), 20, late),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "the request would wait about 400 ms, perhaps 120 ms longer, and take 20 "
                       "ms, its deadline is in 539 ms"));
  EXPECT_THAT(PushDue(std::chrono::milliseconds(540), 20, late), IsOk());
}

TEST_F(EstimatedQueueTest, CountsWhatRunsIntoTheWait) {
  queue_.SetRunning({.until = kNow + std::chrono::milliseconds(60)});
  EXPECT_THAT(PushDue(std::chrono::milliseconds(80), 40),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "the request would wait about 60 ms and take 40 ms, its deadline is in 80 "
                       "ms"));
}

TEST_F(EstimatedQueueTest, KnowsThatAShortJobPassesWhatRuns) {
  queue_.SetRunning(
      {.until = kNow + std::chrono::milliseconds(500), .passable = Priority::kNormal});
  PushOf({}, 5);
  PushOf({}, 300);
  EXPECT_THAT(PushDue(std::chrono::milliseconds(24), 5),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "the request would wait about 20 ms and take 5 ms, its deadline is in 24 "
                       "ms"));
  EXPECT_THAT(PushDue(std::chrono::milliseconds(25), 5), IsOk());
}

TEST_F(EstimatedQueueTest, RefusesByTheMeanSizeBeforeAnythingElseIsKnown) {
  for (int i = 0; i < 19; ++i) {
    PushOf({}, 50);
  }
  EXPECT_THAT(queue_.CheckRoom({}, TimePoint::max(), kNow), IsOk());
  PushOf({}, 50);
  EXPECT_THAT(queue_.CheckRoom({}, TimePoint::max(), kNow),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("(--max-queue-wait)")));
}

TEST_F(EstimatedQueueTest, KnowsFromTheHeadersThatADeadlineCannotBeMet) {
  PushOf({}, 8);
  PushOf({}, 8);
  const auto check = [&](int64_t wait_ms) {
    return queue_.CheckRoom({}, kNow + std::chrono::milliseconds(wait_ms), kNow);
  };
  EXPECT_THAT(check(17), IsOk());
  EXPECT_THAT(check(15), StatusIs(absl::StatusCode::kResourceExhausted,
                                  "the request would wait about 16 ms and take 0 ms, its deadline "
                                  "is in 15 ms"));
}

TEST_F(EstimatedQueueTest, TenantsTakeTurnsByTheirWork) {
  const auto a1 = PushOf({.tenant = "a"}, 20);
  const auto a2 = PushOf({.tenant = "a"}, 20);
  const auto a3 = PushOf({.tenant = "a"}, 20);
  const auto b1 = PushOf({.tenant = "b"}, 10);
  const auto b2 = PushOf({.tenant = "b"}, 10);
  const auto b3 = PushOf({.tenant = "b"}, 10);
  EXPECT_THAT(TakeAll(queue_), ElementsAre(a1, b1, b2, a2, b3, a3));
}

TEST_F(EstimatedQueueTest, AHighPriorityPassesWhatWaitsAndALowOneIsNotStarved) {
  const auto first_normal = PushOf({}, 10);
  const auto low = PushOf({.priority = Priority::kLow}, 10);
  const auto normal = PushOf({}, 10);
  EXPECT_EQ(TakeOne(), first_normal);
  const auto high = PushOf({.priority = Priority::kHigh}, 10);
  EXPECT_EQ(TakeOne(), high);
  EXPECT_EQ(TakeOne(), low) << "its turn came first";
  EXPECT_EQ(TakeOne(), normal);
}

TEST_F(EstimatedQueueTest, PrioritiesShareBy100To10To1) {
  const auto push = [&](Priority priority) {
    PushOf({.priority = priority, .account = std::string(Name(priority))}, 1);
  };
  for (int i = 0; i < 10; ++i) {
    push(Priority::kHigh);
    push(Priority::kNormal);
    push(Priority::kLow);
  }
  std::map<Priority, int> taken;
  for (int i = 0; i < 1110; ++i) {
    const Priority priority = TakeOne()->description().request_class.priority;
    ++taken[priority];
    push(priority);  // each has work all the time
  }
  EXPECT_NEAR(taken[Priority::kHigh], 1000, 15);
  EXPECT_NEAR(taken[Priority::kNormal], 100, 10);
  EXPECT_NEAR(taken[Priority::kLow], 10, 5);
}

TEST(PriorityTest, HasTheNameOfItsMetadata) {
  EXPECT_EQ(PriorityNamed("high"), Priority::kHigh);
  EXPECT_EQ(PriorityNamed("normal"), Priority::kNormal);
  EXPECT_EQ(PriorityNamed("low"), Priority::kLow);
  for (const char* const other : {"", "High", "urgent", "high "}) {
    EXPECT_EQ(PriorityNamed(other), std::nullopt) << other;
  }
}

TEST_F(EstimatedQueueTest, ATenantLeavesRoomForAnother) {
  absl::Status status;
  int taken = 0;
  while (status.ok() && taken < 100) {
    status =
        Push(queue_, FakeJob::Make({.request_class = {.account = "tenant \"greedy\""}}), Takes(50));
    taken += status.ok() ? 1 : 0;
  }
  EXPECT_EQ(taken, 17) << "8/9 of a second";
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "the queue is full: 17 requests of 1700 bytes and about 850 ms wait, "
                       "all of them of tenant \"greedy\", which must leave a part of "
                       "--max-queue-wait free"));
  EXPECT_EQ(ReasonOf(status), RefusalReason::kQueueWait) << "it is the only caller";
  PushOf({.account = "modest"}, 50);
  status =
      Push(queue_, FakeJob::Make({.request_class = {.account = "tenant \"greedy\""}}), Takes(40));
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                               "tenant \"greedy\" has used its share of the queue: 17 requests "
                               "of 1700 bytes and about 850 ms wait"));
  EXPECT_EQ(ReasonOf(status), RefusalReason::kTenantShare) << "another waits";
}

TEST_F(EstimatedQueueTest, AJobThatIsLongerThanTheLimitLeavesRoomForOthers) {
  const RequestClass greedy = {.tenant = "greedy", .account = "a machine"};
  PushOf(greedy, 170'000);
  EXPECT_EQ(queue_.state().work_ns, 170'000 * kMillisecond) << "whatever counts";
  EXPECT_EQ(ReasonOf(Push(queue_, FakeJob::Make({.request_class = greedy}), Takes(10))),
            RefusalReason::kQueueWait)
      << "nobody else waits";
  PushOf({.tenant = "modest", .account = "a machine"}, 10);
  PushOf({.account = "another machine"}, 100);
  for (const RequestClass& request_class : {greedy, RequestClass{.account = "a third machine"}}) {
    const absl::Status status =
        Push(queue_, FakeJob::Make({.request_class = request_class}), Takes(170'000));
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                                 HasSubstr("the waiting requests take about 170110 ms")));
  }
  EXPECT_THAT(Push(queue_, FakeJob::Make({.request_class = greedy}), Takes(1)),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("about 170010 ms wait")));
}

TEST_F(EstimatedQueueTest, AnAccountHasOneShareWhateverItsPrioritiesAndNames) {
  const Priority priorities[] = {Priority::kHigh, Priority::kNormal, Priority::kLow};
  int taken = 0;
  for (int i = 0; i < 100; ++i) {
    const RequestClass request_class = {
        .priority = priorities[i % 3], .tenant = absl::StrCat("name ", i % 7), .account = "greedy"};
    taken += Push(queue_, FakeJob::Make({.request_class = request_class}), Takes(10)).ok() ? 1 : 0;
  }
  EXPECT_LE(taken, 90) << "of 100 that fit";
  EXPECT_GE(taken, 85);
  PushOf({.account = "modest"}, 10);
}

TEST_F(EstimatedQueueTest, ATenantLeavesRoomForAnotherOfItsAccount) {
  const Priority priorities[] = {Priority::kHigh, Priority::kNormal, Priority::kLow};
  int taken = 0;
  for (int i = 0; i < 100; ++i) {
    const RequestClass request_class = {
        .priority = priorities[i % 3], .tenant = "greedy", .account = "a machine"};
    taken += Push(queue_, FakeJob::Make({.request_class = request_class}), Takes(10)).ok() ? 1 : 0;
  }
  EXPECT_LE(taken, 81) << "of 100 that fit";
  EXPECT_GE(taken, 75);
  const RequestClass modest = {.tenant = "modest", .account = "a machine"};
  PushOf(modest, 10);
  EXPECT_THAT(
      Push(queue_, FakeJob::Make({.request_class = {.tenant = "greedy", .account = "a machine"}}),
           Takes(10)),
      StatusIs(
          absl::StatusCode::kResourceExhausted,
          absl::StrCat("tenant \"greedy\" has used its share of the queue: ", taken,
                       " requests of ", 100 * taken, " bytes and about ", 10 * taken, " ms wait")));
  PushOf({.tenant = "modest", .account = "a machine"}, 10);
  PushOf({.account = "another machine"}, 10);
}

TEST_F(EstimatedQueueTest, AnAccountHasSoManyTurnsWhateverTheNumberOfItsNames) {
  constexpr int kNames = 3 * RequestFlows::kMaxFlowsOfAccount;
  for (int i = 0; i < kNames; ++i) {
    PushOf({.tenant = absl::StrCat("name ", i), .account = "greedy"}, 10);
  }
  PushOf({.tenant = "first", .account = "modest"}, 10);
  const auto modest = PushOf({.tenant = "first", .account = "modest"}, 10);
  int before = 0;
  while (TakeOne() != modest) {
    ++before;
  }
  EXPECT_LE(before, 2 * RequestFlows::kMaxFlowsOfAccount) << "not behind all " << kNames;
}

TEST_F(EstimatedQueueTest, NobodyJoinsTheFlowOfAnotherByItsName) {
  PushOf({.tenant = "a", .account = "stranger"}, 100);
  const auto stranger = PushOf({.tenant = "a", .account = "stranger"}, 10);
  const auto own = PushOf({.tenant = "a", .account = "tenant a"}, 10);
  TakeOne();
  EXPECT_EQ(TakeOne(), own);
  EXPECT_EQ(TakeOne(), stranger);
}

TEST_F(EstimatedQueueTest, WhatWasRefusedSaysNothingOfWhatOthersWillAskFor) {
  PushOf({.account = "modest"}, 400);
  for (int i = 0; i < 200; ++i) {
    EXPECT_FALSE(
        Push(queue_, FakeJob::Make({.request_class = {.account = "greedy"}}), Takes(700)).ok());
  }
  EXPECT_THAT(queue_.CheckRoom({.account = "modest"}, TimePoint::max(), kNow), IsOk());
  EXPECT_THAT(queue_.CheckRoom({.account = "another"}, TimePoint::max(), kNow), IsOk());
}

TEST_F(EstimatedQueueTest, NobodyIsRefusedForWorkThatNobodyWaitsFor) {
  const auto cancelled = PushOf({}, 600);
  const auto expired = FakeJob::Make({.deadline = kNow + std::chrono::milliseconds(700)});
  ASSERT_THAT(Push(queue_, expired, Takes(50)), IsOk());
  cancelled->Cancel();
  const TimePoint later = kNow + std::chrono::milliseconds(700);
  EXPECT_THAT(queue_.CheckRoom({}, later + std::chrono::milliseconds(1), later), IsOk());
  EXPECT_EQ(queue_.state().requests, 0);
  const auto live = FakeJob::Make();
  EXPECT_THAT(queue_.Push(live, Takes(900), later), IsOk());
  EXPECT_THAT(queue_.TakeLost(later), ElementsAre(cancelled, expired));
  EXPECT_EQ(TakeOne(), live);
}

TEST_F(EstimatedQueueTest, TheTakerFinishesExpiredJobs) {
  const auto dead = PushOf({}, 900);
  dead->Cancel();
  const auto live = PushOf({}, 900);
  EXPECT_THAT(TakeAll(queue_), ElementsAre(dead, live));
}

TEST_F(EstimatedQueueTest, AJobThatWillPassDoesNotWaitForTheEndOfWhatRuns) {
  queue_.SetRunning({.until = kNow + std::chrono::minutes(1), .passable = Priority::kLow});
  const auto push = [&](const RequestClass& request_class, int64_t left_ms) {
    return Push(queue_,
                FakeJob::Make({.request_class = request_class,
                               .deadline = kNow + std::chrono::milliseconds(left_ms)}),
                Takes(11));
  };
  EXPECT_THAT(push({.priority = Priority::kLow}, 25),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "the request would wait about 21 ms and take 11 ms, its deadline is in 25 "
                       "ms"));
  EXPECT_THAT(push({.priority = Priority::kHigh}, 25), IsOk());
}

TEST_F(EstimatedQueueTest, APatientTakerWaitsForFurtherJobs) {
  const auto job = FakeJob::Make({.lengths = {4}});
  const auto other = FakeJob::Make({.lengths = {4}});
  ASSERT_THAT(Push(queue_, job), IsOk());
  EXPECT_THAT(TakeBeside(
                  queue_, [&] { return TakeForAnHour(); },
                  [&] { EXPECT_THAT(Push(queue_, other), IsOk()); }),
              ElementsAre(job, other));
}

TEST_F(EstimatedQueueTest, TakenJobsDoNotEndTheWait) {
  ASSERT_THAT(Push(queue_, FakeJob::Make({.lengths = {8}})), IsOk());
  TakeAll(queue_);
  ASSERT_THAT(Push(queue_, FakeJob::Make({.lengths = {4}})), IsOk());
  const auto begin = std::chrono::steady_clock::now();
  const auto delay = std::chrono::milliseconds(20);
  queue_.WaitAndTake({begin.time_since_epoch() + delay, /*enough_rows=*/8},
                     [](const Job&) { return true; });
  EXPECT_GE(std::chrono::steady_clock::now() - begin, delay);
}

TEST_F(EstimatedQueueTest, TheOldestJobEndsTheWaitAlsoBehindAYoungerOne) {
  const TimePoint now = std::chrono::steady_clock::now();
  const auto old = FakeJob::Make({.arrival = now - std::chrono::hours(2)});
  const auto young =
      FakeJob::Make({.request_class = {.priority = Priority::kHigh}, .arrival = now});
  ASSERT_THAT(Push(queue_, old), IsOk());
  ASSERT_THAT(Push(queue_, young), IsOk());
  EXPECT_THAT(queue_.WaitAndTake({std::chrono::hours(1), /*enough_rows=*/1000},
                                 [](const Job&) { return true; }),
              ElementsAre(young, old));
}

// The clock of a wait is the real one, by which the deadline has passed.
TEST_F(EstimatedQueueTest, AJobDoesNotWaitForOthersBeyondItsDeadline) {
  const TimePoint begin{std::chrono::milliseconds(1)};
  const auto job = FakeJob::Make({.lengths = {4}, .deadline = begin + std::chrono::seconds(1)});
  ASSERT_THAT(queue_.Push(job, Takes(10), begin), IsOk());
  EXPECT_THAT(TakeBeside(queue_, [&] { return TakeForAnHour(); }, [] {}), ElementsAre(job));
}

TEST_F(EstimatedQueueTest, AJobThatComesLaterDoesNotWaitBeyondItsDeadlineEither) {
  const TimePoint begin{std::chrono::milliseconds(1)};
  const auto first = FakeJob::Make({.lengths = {2}});
  const auto hurried = FakeJob::Make({.lengths = {2}, .deadline = begin + std::chrono::seconds(1)});
  ASSERT_THAT(queue_.Push(first, Takes(10), begin), IsOk());
  EXPECT_THAT(TakeBeside(
                  queue_, [&] { return TakeForAnHour(); },
                  [&] { EXPECT_THAT(queue_.Push(hurried, Takes(10), begin), IsOk()); }),
              ElementsAre(first, hurried));
}

}  // namespace
}  // namespace attention
