#include "server/scheduling/batcher.h"

#include "gmock/gmock.h"
#include "tests/server/scheduling/fake_job.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class BatcherTest : public ::testing::Test {
 protected:
  std::shared_ptr<FakeJob> Push(const FakeJobSpec& spec = {}) {
    auto job = FakeJob::Make(spec);
    EXPECT_THAT(queue_.Push(job, {.added_ns = spec.size_bytes}, now_), IsOk());
    return job;
  }

  // Pushes a job that is expected to take 100 ns.
  std::shared_ptr<FakeJob> PushDue(nanoseconds time_left) {
    auto job = FakeJob::Make({.lengths = {1}, .flops = 100, .deadline = now_ + time_left});
    EXPECT_THAT(queue_.Push(job, {.added_ns = 1, .alone_ns = 100}, now_), IsOk());
    return job;
  }

  // Nobody else pushes. Of a closed queue Next takes what waits; it never waits for more, whatever
  // rule is broken.
  Batch Next() {
    queue_.Close();
    return batcher_.Next();
  }

  TimePoint now_ = TimePoint(std::chrono::hours(1));
  RequestQueue queue_{{.max_bytes = 1 << 20, .max_requests = 100}};
  std::vector<std::shared_ptr<Job>> requeued_;
  Batcher batcher_{
      queue_,
      {.max_tokens = 10, .max_flops = 500, .shared_rows = 6, .max_cache_bytes = 1000},
      /*num_threads=*/2,
      {.clock = [this] { return now_; },
       .estimate =
           [](const BatchKey&, double flops) {
             const auto ns = static_cast<int64_t>(flops);
             return WorkEstimate{ns, ns};
           },
       .requeue = [this](std::shared_ptr<Job> job) { requeued_.push_back(std::move(job)); }}};
};

TEST_F(BatcherTest, MakesOneBatchOfWhateverWaits) {
  const auto first = Push({.lengths = {4, 1}});
  const auto second = Push({.lengths = {2}});
  const Batch batch = Next();
  EXPECT_THAT(batch.jobs, ElementsAre(first, second));
  EXPECT_EQ(batch.sequences, 3);
  EXPECT_EQ(batch.tokens, 7);
  EXPECT_EQ(batch.start, now_);
}

TEST_F(BatcherTest, NumbersBatchesFromOne) {
  for (int64_t num_heads = 1; num_heads <= 3; ++num_heads) {
    Push({.num_heads = num_heads});
  }
  for (uint64_t id = 1; id <= 3; ++id) {
    EXPECT_EQ(Next().id, id);
  }
}

TEST_F(BatcherTest, TakesTheOldestJobsKeyAndLeavesOtherKeysForLater) {
  const auto two_heads = Push({.num_heads = 2});
  const auto four_heads = Push({.num_heads = 4});
  const auto two_heads_again = Push({.num_heads = 2});
  EXPECT_THAT(Next().jobs, ElementsAre(two_heads, two_heads_again));
  EXPECT_THAT(Next().jobs, ElementsAre(four_heads));
}

TEST_F(BatcherTest, StaysWithinTheTokenLimitAndLetsNoSmallerJobPass) {
  const auto first = Push({.lengths = {4}});
  const auto second = Push({.lengths = {3}});
  const auto too_many = Push({.lengths = {5}});
  const auto would_fit = Push({.lengths = {3}});
  EXPECT_THAT(Next().jobs, ElementsAre(first, second));
  EXPECT_THAT(Next().jobs, ElementsAre(too_many, would_fit));
}

TEST_F(BatcherTest, AJobWithoutRowsCountsAsOneRow) {
  for (int i = 0; i < 11; ++i) {
    Push({.lengths = {0}});
  }
  EXPECT_EQ(Next().jobs.size(), 10U);
  EXPECT_EQ(Next().jobs.size(), 1U);
}

TEST_F(BatcherTest, ComputesALargerJobAlone) {
  const auto large = Push({.lengths = {11}, .flops = 1001});
  const auto small = Push({.lengths = {1}, .flops = 1000});
  const Batch first = Next();
  EXPECT_THAT(first.jobs, ElementsAre(large));
  EXPECT_TRUE(first.is_long);
  const Batch second = Next();
  EXPECT_THAT(second.jobs, ElementsAre(small));
  EXPECT_FALSE(second.is_long);
}

// Only the key tells it: the jobs compute attention without a model.
const Model* const kModel = reinterpret_cast<const Model*>(0x1000);

TEST_F(BatcherTest, FewRowsOfAModelShareItsWeightsWhateverTheirOperations) {
  std::vector<std::shared_ptr<Job>> jobs;
  for (int i = 0; i < 5; ++i) {
    jobs.push_back(Push({.lengths = {2}, .model = kModel, .flops = 2000}));
  }
  const Batch first = Next();
  EXPECT_THAT(first.jobs, ElementsAre(jobs[0], jobs[1], jobs[2])) << "six rows";
  EXPECT_TRUE(first.is_long);
  EXPECT_THAT(Next().jobs, ElementsAre(jobs[3], jobs[4]));
}

TEST_F(BatcherTest, RowsOfAMemoryAreNotFreeBesideSharedWeights) {
  const auto memory = FakeJobSpec{.lengths = {1}, .model = kModel, .flops = 600, .memory_rows = 3};
  const auto first = Push(memory);
  const auto second = Push(memory);
  EXPECT_THAT(Next().jobs, ElementsAre(first)) << "eight rows by the weights";
  EXPECT_THAT(Next().jobs, ElementsAre(second));
}

TEST_F(BatcherTest, AttentionIsNotFreeBesideSharedWeights) {
  const auto cached =
      FakeJobSpec{.lengths = {1}, .model = kModel, .flops = 700, .attention_flops = 600};
  const auto first = Push(cached);
  const auto second = Push(cached);
  EXPECT_THAT(Next().jobs, ElementsAre(first)) << "long caches";
  EXPECT_THAT(Next().jobs, ElementsAre(second));
}

TEST_F(BatcherTest, WithoutWeightsOperationsDecideAlone) {
  const auto first = Push({.lengths = {2}, .flops = 600});
  const auto second = Push({.lengths = {2}, .flops = 600});
  EXPECT_THAT(Next().jobs, ElementsAre(first));
  EXPECT_THAT(Next().jobs, ElementsAre(second));
}

TEST_F(BatcherTest, JobsOfTheRunningModelWaitToShareItsWeights) {
  const auto make = [](Priority priority) {
    return FakeJobSpec{.model = kModel, .size_bytes = 10, .request_class = {.priority = priority}};
  };
  const Batch one = {.jobs = {FakeJob::Make(make(Priority::kNormal))}};
  const Batch several = {.jobs = {one.jobs[0], FakeJob::Make(make(Priority::kNormal))}};
  const auto same = Push(make(Priority::kNormal));
  EXPECT_THAT(batcher_.NextShort(50, several).jobs, IsEmpty());
  EXPECT_THAT(batcher_.NextBefore(1000, true, several).jobs, IsEmpty());
  EXPECT_THAT(batcher_.NextShort(50, one).jobs, ElementsAre(same));
  FakeJobSpec prompt = make(Priority::kNormal);
  prompt.lengths = {7};  // too many rows to share
  const auto passes = Push(prompt);
  EXPECT_THAT(batcher_.NextShort(50, several).jobs, ElementsAre(passes));
  const auto high = Push(make(Priority::kHigh));
  const auto other = Push({.size_bytes = 10});
  EXPECT_THAT(batcher_.NextShort(50, several).jobs, ElementsAre(high));
  EXPECT_THAT(batcher_.NextShort(50, several).jobs, ElementsAre(other));
}

TEST_F(BatcherTest, FinishesExpiredJobsInsteadOfComputingThem) {
  const auto late = Push({.deadline = now_ + milliseconds(20)});
  const auto in_time = Push({.deadline = now_ + milliseconds(40)});
  now_ += milliseconds(30);
  EXPECT_THAT(Next().jobs, ElementsAre(in_time));
  ASSERT_TRUE(late->is_finished());
  EXPECT_THAT(late->status(),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("the deadline passed while the request waited, after ")));
  EXPECT_EQ(late->stats().batch_id, 0);
}

TEST_F(BatcherTest, FinishesCancelledJobsInsteadOfComputingThem) {
  const auto cancelled = Push();
  const auto live = Push();
  cancelled->Cancel();
  EXPECT_THAT(Next().jobs, ElementsAre(live));
  ASSERT_TRUE(cancelled->is_finished());
  EXPECT_THAT(cancelled->status(),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("while the request waited")));
}

TEST_F(BatcherTest, DeadJobsDoNotDecideTheKey) {
  const auto cancelled = Push({.num_heads = 4});
  const auto live = Push({.num_heads = 2});
  const auto other = Push({.num_heads = 4});
  cancelled->Cancel();
  EXPECT_THAT(Next().jobs, ElementsAre(live));
  EXPECT_THAT(Next().jobs, ElementsAre(other));
}

TEST_F(BatcherTest, StaysWithinTheLimitOfWork) {
  const auto first = Push({.lengths = {1}, .flops = 500});
  const auto second = Push({.lengths = {1}, .flops = 500});
  const auto too_much = Push({.lengths = {1}, .flops = 1});
  EXPECT_THAT(Next().jobs, ElementsAre(first, second));
  EXPECT_THAT(Next().jobs, ElementsAre(too_much));
}

TEST_F(BatcherTest, StaysWithinTheMemoryOfCaches) {
  const auto large = Push({.lengths = {1}, .cache_bytes = 1001});
  const auto first = Push({.lengths = {1}, .cache_bytes = 500});
  const auto second = Push({.lengths = {1}, .cache_bytes = 500});
  const auto third = Push({.lengths = {1}, .cache_bytes = 1});
  EXPECT_THAT(Next().jobs, ElementsAre(large)) << "alone it may have any";
  EXPECT_THAT(Next().jobs, ElementsAre(first, second));
  EXPECT_THAT(Next().jobs, ElementsAre(third));
}

TEST_F(BatcherTest, JobsWithoutMemoryAreQueuedAgain) {
  const auto without = Push({.cache_bytes = 1, .has_memory = false});
  const auto with = Push({.cache_bytes = 1});
  const Batch batch = Next();
  EXPECT_THAT(batch.jobs, ElementsAre(with));
  EXPECT_EQ(batch.tokens, with->description().tokens);
  EXPECT_THAT(requeued_, ElementsAre(without));
  EXPECT_FALSE(without->is_finished());
}

TEST_F(BatcherTest, AShortBatchPassesOverLongJobsAndLowerPriorities) {
  const auto is_long = Push({.size_bytes = 60});  // the test's estimate, too
  const auto is_short = Push({.size_bytes = 20});
  const auto is_low = Push({.size_bytes = 10, .request_class = {.priority = Priority::kLow}});
  const auto also_short = Push({.size_bytes = 30});
  const auto one_too_many = Push({.size_bytes = 10});
  const Batch running = {.jobs = {FakeJob::Make()}};
  EXPECT_THAT(batcher_.NextShort(50, running).jobs, ElementsAre(is_short, also_short));
  EXPECT_THAT(batcher_.NextShort(5, running).jobs, IsEmpty());
  EXPECT_EQ(Next().jobs.size(), 2);
}

TEST_F(BatcherTest, OnlyAHigherPriorityPassesWhatEndsSoon) {
  const Batch running = {.jobs = {FakeJob::Make()}};
  const auto equal = Push({.size_bytes = 10});
  const auto high = Push({.size_bytes = 10, .request_class = {.priority = Priority::kHigh}});
  EXPECT_THAT(batcher_.NextShort(50, running, /*only_higher=*/true).jobs, ElementsAre(high));
  EXPECT_THAT(batcher_.NextShort(50, running).jobs, ElementsAre(equal));
}

TEST_F(BatcherTest, ShortJobsPassUpToATimeOfAllTogether) {
  const Batch running = {.jobs = {FakeJob::Make()}};
  const auto first = Push({.lengths = {1}, .size_bytes = 20});  // the test's estimate, too
  const auto second = Push({.lengths = {1}, .size_bytes = 30});
  Push({.lengths = {1}, .size_bytes = 10});
  EXPECT_THAT(batcher_.NextShort(50, running).jobs, ElementsAre(first, second));
}

TEST_F(BatcherTest, JobsThatFinishBeforeThePositionPassInOrder) {
  const Batch running = {.jobs = {FakeJob::Make()}};
  const auto low = Push({.size_bytes = 20, .request_class = {.priority = Priority::kLow}});
  const auto normal = Push({.size_bytes = 50});
  const auto high = Push({.size_bytes = 100, .request_class = {.priority = Priority::kHigh}});
  EXPECT_THAT(batcher_.NextBefore(0.5, true, running).jobs, IsEmpty());
  EXPECT_THAT(batcher_.NextBefore(1, true, running).jobs, ElementsAre(high));
  EXPECT_THAT(batcher_.NextBefore(19, true, running).jobs, ElementsAre(normal))
      << "not the low one";
  EXPECT_THAT(batcher_.NextBefore(20, true, running).jobs, ElementsAre(low));
}

TEST_F(BatcherTest, ALongJobPassesOnlyIfAllowsLong) {
  const Batch running = {.jobs = {FakeJob::Make()}};
  const auto job = Push({.size_bytes = 20, .flops = 1001});
  EXPECT_THAT(batcher_.NextBefore(20, false, running).jobs, IsEmpty());
  EXPECT_THAT(batcher_.NextBefore(20, true, running).jobs, ElementsAre(job));
}

TEST_F(BatcherTest, WhatNobodyWaitsForLeavesTheQueueWhileAnotherRuns) {
  const auto cancelled = Push({.size_bytes = 1000});
  const auto late = Push({.deadline = now_ + milliseconds(20)});
  const auto live = Push();
  cancelled->Cancel();
  now_ += milliseconds(20);
  batcher_.FinishLost();
  EXPECT_TRUE(absl::IsCancelled(cancelled->status()));
  EXPECT_TRUE(absl::IsDeadlineExceeded(late->status()));
  EXPECT_EQ(queue_.state().requests, 1);
  EXPECT_THAT(Next().jobs, ElementsAre(live));
}

// gRPC cancels a call at its deadline.
TEST_F(BatcherTest, AJobThatIsCancelledAtItsDeadlineCountsAsLate) {
  const RequestClass late = {.account = "late"};
  for (int i = 0; i < 60; ++i) {
    Push({.request_class = late, .deadline = now_ + milliseconds(1)})->Cancel();
    now_ += RequestQueue::kSweepInterval;
    batcher_.FinishLost();
  }
  Push({.size_bytes = 1000, .request_class = late});  // the test's estimate, too
  const auto next = FakeJob::Make({.request_class = late, .deadline = now_ + nanoseconds(1400)});
  EXPECT_THAT(queue_.Push(next, {.added_ns = 1, .alone_ns = 100}, now_),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr(", perhaps 1 ms longer,")))
      << "its account needs time to spare";
}

TEST_F(BatcherTest, EndsWhenTheQueueIsClosedAndEmpty) {
  const auto last = Push();
  queue_.Close();
  EXPECT_THAT(Next().jobs, ElementsAre(last));
  EXPECT_THAT(Next().jobs, IsEmpty());
}

// Each takes 100 ns.
TEST_F(BatcherTest, ABatchEndsByTheDeadlinesOfItsJobs) {
  const auto first = PushDue(nanoseconds(250));
  const auto second = PushDue(nanoseconds(1000));
  const auto third = PushDue(nanoseconds(1000));
  EXPECT_THAT(Next().jobs, ElementsAre(first, second));
  EXPECT_THAT(Next().jobs, ElementsAre(third));
}

TEST_F(BatcherTest, AJobWithLittleTimeKeepsNoOtherOutOfABatchOfTwiceItsTime) {
  const auto hurried = PushDue(nanoseconds(101));
  const auto second = PushDue(nanoseconds(1000));
  const auto third = PushDue(nanoseconds(1000));
  EXPECT_THAT(Next().jobs, ElementsAre(hurried, second));
  EXPECT_THAT(Next().jobs, ElementsAre(third));
}

TEST_F(BatcherTest, AJobThatWouldEndTooLateIsPassed) {
  const auto first = PushDue(nanoseconds(1000));
  const auto second = PushDue(nanoseconds(1000));
  const auto hurried = PushDue(nanoseconds(150));
  const auto patient = PushDue(nanoseconds(1000));
  EXPECT_THAT(Next().jobs, ElementsAre(first, second, patient));
  EXPECT_THAT(Next().jobs, ElementsAre(hurried));
}

TEST_F(BatcherTest, AJobThatCannotEndInTimeIsNotComputed) {
  const auto late = PushDue(nanoseconds(159));
  const auto in_time = PushDue(nanoseconds(160));
  now_ += nanoseconds(60);
  EXPECT_THAT(Next().jobs, ElementsAre(in_time));
  EXPECT_THAT(late->status(),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr(" ms and takes about 0 ms, its deadline is in 0 ms")));
}

TEST_F(BatcherTest, AJobThatIsTriedIsComputedUntilItsDeadline) {
  FakeJobSpec spec = {.flops = 100, .deadline = now_ + nanoseconds(10)};
  const auto tried = Push(spec);
  const auto other = Push({.flops = 100});
  now_ += nanoseconds(9);
  EXPECT_THAT(Next().jobs, ElementsAre(tried, other));
}

}  // namespace
}  // namespace attention
