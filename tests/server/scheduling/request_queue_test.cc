#include "server/scheduling/request_queue.h"

#include <thread>

#include "gmock/gmock.h"
#include "tests/server/scheduling/fake_job.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::shared_ptr<Job>> TakeAll(RequestQueue& queue) {
  return queue.WaitAndTake([](const Job&) { return true; });
}

TEST(RequestQueueTest, GivesJobsInTheOrderTheyCame) {
  RequestQueue queue({.max_bytes = 1000, .max_requests = 10});
  const auto first = FakeJob::Make();
  const auto second = FakeJob::Make();
  ASSERT_THAT(queue.Push(first), IsOk());
  ASSERT_THAT(queue.Push(second), IsOk());
  EXPECT_THAT(TakeAll(queue), ElementsAre(first, second));
}

TEST(RequestQueueTest, RefusesInsteadOfBlockingWhenFull) {
  RequestQueue queue({.max_bytes = 1000, .max_requests = 2});
  ASSERT_THAT(queue.Push(FakeJob::Make()), IsOk());
  ASSERT_THAT(queue.Push(FakeJob::Make()), IsOk());
  EXPECT_THAT(queue.Push(FakeJob::Make()),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "the queue is full: 2 requests wait, at most 2 may (--max-queue-requests)"));
}

TEST(RequestQueueTest, RefusesMoreBytesThanMayWait) {
  RequestQueue queue({.max_bytes = 1000, .max_requests = 10});
  ASSERT_THAT(queue.Push(FakeJob::Make({.size_bytes = 900})), IsOk());
  EXPECT_THAT(queue.Push(FakeJob::Make({.size_bytes = 101})),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "the queue is full: 900 bytes wait, 101 more would pass the limit of 1000 "
                       "(--max-queue-bytes)"));
  EXPECT_THAT(queue.Push(FakeJob::Make({.size_bytes = 100})), IsOk());
}

TEST(RequestQueueTest, TakesAnyJobWhenNothingWaits) {
  RequestQueue queue({.max_bytes = 1000, .max_requests = 10});
  EXPECT_THAT(queue.Push(FakeJob::Make({.size_bytes = 5000})), IsOk());
}

TEST(RequestQueueTest, HasRoomAgainForWhatWasTaken) {
  RequestQueue queue({.max_bytes = 1000, .max_requests = 1});
  for (int i = 0; i < 5; ++i) {
    ASSERT_THAT(queue.Push(FakeJob::Make({.size_bytes = 1000})), IsOk());
    ASSERT_EQ(TakeAll(queue).size(), 1);
  }
}

TEST(RequestQueueTest, KeepsWhatWasNotSelectedInOrder) {
  RequestQueue queue({.max_bytes = 1000, .max_requests = 10});
  std::vector<std::shared_ptr<FakeJob>> jobs;
  for (int64_t i = 0; i < 4; ++i) {
    jobs.push_back(FakeJob::Make({.size_bytes = i}));
    ASSERT_THAT(queue.Push(jobs.back()), IsOk());
  }
  EXPECT_THAT(
      queue.WaitAndTake([](const Job& job) { return job.description().size_bytes % 2 == 0; }),
      ElementsAre(jobs[0], jobs[2]));
  EXPECT_THAT(TakeAll(queue), ElementsAre(jobs[1], jobs[3]));
}

TEST(RequestQueueTest, WakesATakerThatWaits) {
  RequestQueue queue({.max_bytes = 1000, .max_requests = 10});
  std::vector<std::shared_ptr<Job>> taken;
  std::thread taker([&] { taken = TakeAll(queue); });
  const auto job = FakeJob::Make();
  ASSERT_THAT(queue.Push(job), IsOk());
  taker.join();
  EXPECT_THAT(taken, ElementsAre(job));
}

TEST(RequestQueueTest, RefusesAfterCloseButGivesWhatWaits) {
  RequestQueue queue({.max_bytes = 1000, .max_requests = 10});
  const auto job = FakeJob::Make();
  ASSERT_THAT(queue.Push(job), IsOk());
  queue.Close();
  EXPECT_THAT(queue.Push(FakeJob::Make()),
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

}  // namespace
}  // namespace attention
