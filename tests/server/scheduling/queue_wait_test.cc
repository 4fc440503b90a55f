// How long a queued job would wait, and when a refused one is told to come back.
#include <chrono>
#include <memory>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "server/scheduling/refusal.h"
#include "tests/server/scheduling/estimated_queue.h"

namespace attention {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

using QueueWaitTest = EstimatedQueueTest;

TEST_F(QueueWaitTest, ABatchThatIsNearlyDoneIsWaitedFor) {
  queue_.SetRunning({.until = kNow + milliseconds(8), .passable = Priority::kNormal});
  EXPECT_THAT(PushDue(milliseconds(12), 5),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("would wait about 8 ms")));
}

TEST_F(QueueWaitTest, WhatCouldShareTheWeightsWaitsForTheEndOfWhatRuns) {
  const auto job = FakeJob::Make({.deadline = kNow + milliseconds(100)});
  queue_.SetRunning({.until = kNow + milliseconds(500),
                     .passable = Priority::kNormal,
                     .shared_key = job->description().key});
  EXPECT_THAT(Push(queue_, job, Takes(5)),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("would wait about 500 ms")));
}

TEST_F(QueueWaitTest, PassingTakesAsLongAsTheSharesSay) {
  queue_.SetRunning({.until = kNow + std::chrono::minutes(1), .passable = Priority::kNormal});
  EXPECT_THAT(PushDue(milliseconds(25), 20, {.priority = Priority::kHigh}),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("would wait about 12 ms")));
}

TEST_F(QueueWaitTest, NobodyWaitsLongerThanTheEndOfWhatRuns) {
  queue_.SetRunning({.until = kNow + milliseconds(30), .passable = Priority::kNormal});
  EXPECT_THAT(PushDue(milliseconds(110), 100),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("would wait about 30 ms")));
}

TEST_F(QueueWaitTest, ARequestThatJustMeetsItsDeadlineIsTaken) {
  EXPECT_THAT(PushDue(milliseconds(40), 40), IsOk());
}

TEST_F(QueueWaitTest, RetriesComeWhenHalfOfWhatMayWaitIsLeft) {
  PushOf({}, 10'000);  // taken, as nothing waits
  EXPECT_EQ(RefusalOf(Push(queue_, FakeJob::Make(), Takes(300)))->retry_after_ms, 9500);
}

TEST_F(QueueWaitTest, RetriesAreSpreadForAThousandAccountsAtATime) {
  PushOf({}, 500);
  PushOf({}, 400);
  const auto retry_ms = [&](int i) {
    const auto job = FakeJob::Make({.request_class = {.account = absl::StrCat(i)}});
    return RefusalOf(Push(queue_, job, Takes(200)))->retry_after_ms;
  };
  for (int i = 0; i < 1024; ++i) {
    retry_ms(i);
  }
  const int64_t first_ms = retry_ms(5000);
  EXPECT_EQ(retry_ms(5000), first_ms) << "the next one is not remembered";
}

TEST_F(QueueWaitTest, RetriesOfOtherAccountsAreSpreadWhenThoseOfAThousandAreOver) {
  PushOf({}, 500);
  PushOf({}, 400);
  const auto retry_ms = [&](int i, TimePoint now) {
    const auto job = FakeJob::Make({.request_class = {.account = absl::StrCat(i)}});
    return RefusalOf(queue_.Push(job, Takes(200), now))->retry_after_ms;
  };
  for (int i = 0; i < 1024; ++i) {
    retry_ms(i, kNow);
  }
  const TimePoint later = kNow + std::chrono::minutes(2);
  const int64_t first_ms = retry_ms(5000, later);
  EXPECT_EQ(retry_ms(5000, later), first_ms + 200);
}

TEST_F(QueueWaitTest, RefusesByTheMeanBytesBeforeAnythingElseIsKnown) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_THAT(Push(queue_, FakeJob::Make({.size_bytes = 300'000})), IsOk());
  }
  const absl::Status full = queue_.CheckRoom({}, TimePoint::max(), kNow);
  EXPECT_EQ(ReasonOf(full), RefusalReason::kQueueBytes) << full;
}

TEST_F(QueueWaitTest, NobodyIsRefusedByTheHeadersForADeadlineBehindTheDead) {
  for (int i = 0; i < 3; ++i) {
    PushOf({}, 8)->Cancel();
  }
  EXPECT_THAT(queue_.CheckRoom({}, kNow + milliseconds(15), kNow), IsOk());
}

}  // namespace
}  // namespace attention
