#include "server/scheduling/request_queue.h"

#include <optional>
#include <thread>

#include "gmock/gmock.h"
#include "server/scheduling/refusal.h"
#include "tests/server/scheduling/queue_calls.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(RequestQueueTest, GivesJobsInTheOrderTheyCame) {
  RequestQueue queue({.max_bytes = 1000, .max_requests = 10});
  const auto first = FakeJob::Make();
  const auto second = FakeJob::Make();
  ASSERT_THAT(Push(queue, first), IsOk());
  ASSERT_THAT(Push(queue, second), IsOk());
  EXPECT_THAT(TakeAll(queue), ElementsAre(first, second));
}

TEST(RequestQueueTest, RefusesInsteadOfBlockingWhenFull) {
  RequestQueue queue({.max_bytes = 1000, .max_requests = 2});
  ASSERT_THAT(Push(queue, FakeJob::Make()), IsOk());
  ASSERT_THAT(Push(queue, FakeJob::Make()), IsOk());
  EXPECT_THAT(
      Push(queue, FakeJob::Make()),
      StatusIs(absl::StatusCode::kResourceExhausted,
               "the queue is full: 2 waiting requests; the maximum is 2 (--max-queue-requests)"));
}

TEST(RequestQueueTest, RefusesMoreBytesThanMayWait) {
  RequestQueue queue({.max_bytes = 1000, .max_requests = 10});
  ASSERT_THAT(Push(queue, FakeJob::Make({.size_bytes = 900})), IsOk());
  EXPECT_THAT(Push(queue, FakeJob::Make({.size_bytes = 101})),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "the queue is full: 900 bytes wait, 101 more would exceed the limit of 1000 "
                       "(--max-queue-bytes)"));
  EXPECT_THAT(Push(queue, FakeJob::Make({.size_bytes = 100})), IsOk());
}

TEST(RequestQueueTest, ARefusalSaysForWhichReason) {
  RequestQueue queue({.max_bytes = 1000, .max_requests = 2});
  ASSERT_THAT(Push(queue, FakeJob::Make()), IsOk());
  EXPECT_EQ(ReasonOf(Push(queue, FakeJob::Make({.size_bytes = 1001}))), RefusalReason::kQueueBytes);
  ASSERT_THAT(Push(queue, FakeJob::Make()), IsOk());
  EXPECT_EQ(ReasonOf(Push(queue, FakeJob::Make())), RefusalReason::kQueueRequests);
  EXPECT_EQ(ReasonOf(absl::ResourceExhaustedError("")), RefusalReason::kLimit);
  EXPECT_EQ(ReasonOf(absl::DeadlineExceededError("passed while it was computed")), std::nullopt);
  EXPECT_EQ(ReasonOf(absl::UnavailableError("")), RefusalReason::kUnavailable);
  EXPECT_EQ(ReasonOf(absl::InvalidArgumentError("")), std::nullopt);
  EXPECT_EQ(ReasonOf(absl::OkStatus()), std::nullopt);
}

TEST(RequestQueueTest, TakesAnyJobWhenNothingWaits) {
  RequestQueue queue({.max_bytes = 1000, .max_requests = 10});
  EXPECT_THAT(Push(queue, FakeJob::Make({.size_bytes = 5000})), IsOk());
}

TEST(RequestQueueTest, HasRoomAgainForWhatWasTaken) {
  RequestQueue queue({.max_bytes = 1000, .max_requests = 1});
  for (int i = 0; i < 5; ++i) {
    ASSERT_THAT(Push(queue, FakeJob::Make({.size_bytes = 1000})), IsOk());
    ASSERT_EQ(TakeAll(queue).size(), 1);
  }
}

TEST(RequestQueueTest, KeepsWhatWasNotSelectedInOrder) {
  RequestQueue queue({.max_bytes = 1000, .max_requests = 10});
  std::vector<std::shared_ptr<FakeJob>> jobs;
  for (int64_t i = 0; i < 4; ++i) {
    jobs.push_back(FakeJob::Make({.size_bytes = i}));
    ASSERT_THAT(Push(queue, jobs.back()), IsOk());
  }
  EXPECT_THAT(
      queue.WaitAndTake({}, [](const Job& job) { return job.description().size_bytes % 2 == 0; }),
      ElementsAre(jobs[0], jobs[2]));
  EXPECT_THAT(TakeAll(queue), ElementsAre(jobs[1], jobs[3]));
}

TEST(RequestQueueTest, WakesATakerThatWaits) {
  RequestQueue queue({.max_bytes = 1000, .max_requests = 10});
  const auto job = FakeJob::Make();
  EXPECT_THAT(
      TakeBeside(
          queue, [&] { return TakeAll(queue); }, [&] { EXPECT_THAT(Push(queue, job), IsOk()); }),
      ElementsAre(job));
}

TEST(RequestQueueTest, RefusesAfterCloseButGivesWhatWaits) {
  RequestQueue queue({.max_bytes = 1000, .max_requests = 10});
  const auto job = FakeJob::Make();
  ASSERT_THAT(Push(queue, job), IsOk());
  queue.Close();
  EXPECT_THAT(Push(queue, FakeJob::Make()),
              StatusIs(absl::StatusCode::kUnavailable, "the server is draining"));
  EXPECT_THAT(TakeAll(queue), ElementsAre(job));
  EXPECT_THAT(TakeAll(queue), IsEmpty());
}

TEST(RequestQueueTest, CloseWakesATakerThatWaits) {
  RequestQueue queue({.max_bytes = 1000, .max_requests = 10});
  std::vector<std::shared_ptr<Job>> taken = {FakeJob::Make()};
  std::thread taker([&] { taken = TakeAll(queue); });
  queue.Close();
  taker.join();
  EXPECT_THAT(taken, IsEmpty());
}

TEST(RequestQueueTest, ReservedBytesCountUntilTheyAreGivenBack) {
  RequestQueue queue({.max_bytes = 1000, .max_requests = 10});
  absl::StatusOr<std::unique_ptr<HeldBytes>> held = queue.Reserve({}, 900, TimePoint());
  ASSERT_THAT(held, IsOk());
  EXPECT_EQ(queue.state().bytes, 900);
  EXPECT_EQ(queue.state().requests, 0);
  const auto full =
      "the queue is full: 900 bytes wait, 101 more would exceed the limit of 1000 "
      "(--max-queue-bytes)";
  EXPECT_THAT(Push(queue, FakeJob::Make({.size_bytes = 101})),
              StatusIs(absl::StatusCode::kResourceExhausted, full));
  EXPECT_THAT(queue.Reserve({}, 101, TimePoint()),
              StatusIs(absl::StatusCode::kResourceExhausted, full));
  EXPECT_THAT(Push(queue, FakeJob::Make({.size_bytes = 100})), IsOk());
  held->reset();
  EXPECT_EQ(queue.state().bytes, 100);
  EXPECT_THAT(queue.Reserve({}, 900, TimePoint()), IsOk());
  EXPECT_EQ(queue.state().bytes, 100);
}

TEST(RequestQueueTest, ALongJobIsTakenWhereNothingButReservedBytesWait) {
  RequestQueue queue({.max_bytes = 1000, .max_requests = 10, .max_wait_ns = 10});
  const absl::StatusOr<std::unique_ptr<HeldBytes>> held = queue.Reserve({}, 900, TimePoint());
  ASSERT_THAT(held, IsOk());
  EXPECT_THAT(queue.Push(FakeJob::Make({.size_bytes = 100}), {.added_ns = 1000}, TimePoint()),
              IsOk());
}

TEST(RequestQueueTest, NothingIsReservedOnceItIsClosed) {
  RequestQueue queue({.max_bytes = 1000, .max_requests = 10});
  queue.Close();
  EXPECT_THAT(queue.Reserve({}, 1, TimePoint()),
              StatusIs(absl::StatusCode::kUnavailable, "the server is draining"));
}

TEST(RequestQueueTest, NothingIsQueuedAgainOnceItIsClosed) {
  RequestQueue queue({.max_bytes = 1000, .max_requests = 10});
  queue.Close();
  EXPECT_THAT(queue.PushAgain(FakeJob::Make(), {}),
              StatusIs(absl::StatusCode::kUnavailable, "the server is draining"));
}

TEST(RequestQueueTest, LooksForTheDeadOnceInAnInterval) {
  RequestQueue queue({.max_bytes = 1000, .max_requests = 10});
  const auto first = FakeJob::Make();
  const auto second = FakeJob::Make();
  ASSERT_THAT(Push(queue, first), IsOk());
  ASSERT_THAT(Push(queue, second), IsOk());
  first->Cancel();
  EXPECT_THAT(queue.TakeLost(kNow), ElementsAre(first));
  second->Cancel();
  EXPECT_THAT(queue.TakeLost(kNow + RequestQueue::kSweepInterval / 2), IsEmpty());
  EXPECT_THAT(queue.TakeLost(kNow + RequestQueue::kSweepInterval), ElementsAre(second));
}

}  // namespace
}  // namespace attention
