#include "server/scheduling/executor.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "server/scheduling/refusal.h"
#include "tests/server/scheduling/fake_job.h"
#include "tests/support/eventually.h"
#include "tests/support/fake_numa.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

const ExecutorOptions kOptions = {.num_threads = 2,
                                  .batch = {.max_tokens = 256},
                                  .queue = {.max_bytes = 1 << 30, .max_requests = 1 << 20}};

using Jobs = std::vector<std::shared_ptr<FakeJob>>;

constexpr int kProducers = 4;
constexpr int kJobsEach = 50;

// The same for every producer.
FakeJobSpec SpecOf(int job) {
  return {.lengths = {1 + job * 7 % 90, 1 + job % 3},
          .num_heads = job % 5 == 0 ? 3 : 2,
          .seed = static_cast<uint64_t>(job % 10),
          .wants_rows = job % 4 == 0};
}

void Produce(Executor& executor, Jobs& jobs) {
  for (int i = 0; i < kJobsEach; ++i) {
    jobs.push_back(FakeJob::Make(SpecOf(i)));
    EXPECT_THAT(executor.Submit(jobs.back()), IsOk());
  }
}

/// Holds the compute threads with a job of its own, from its construction until Release.
class Blockade {
 public:
  explicit Blockade(Executor& executor) {
    job_->FailGathering([this] {
      is_holding_ = true;
      released_.get_future().wait();
    });
    EXPECT_THAT(executor.Submit(job_), IsOk());
    EXPECT_TRUE(Eventually([this] { return is_holding_.load(); }));
  }
  void Release() { released_.set_value(); }

 private:
  std::atomic<bool> is_holding_ = false;
  std::promise<void> released_;
  const std::shared_ptr<FakeJob> job_ = FakeJob::Make({.lengths = {1}});
};

bool AllFinished(const Jobs& jobs) {
  return std::all_of(jobs.begin(), jobs.end(), [](const auto& job) { return job->is_finished(); });
}

TEST(ExecutorTest, FinishesEveryJobOnceWithItsOwnAnswer) {
  Executor executor(kOptions);
  Blockade blockade(executor);
  std::vector<Jobs> jobs(kProducers);
  std::vector<std::thread> producers;
  for (Jobs& own : jobs) {
    producers.emplace_back([&] { Produce(executor, own); });
  }
  for (std::thread& producer : producers) {
    producer.join();
  }
  blockade.Release();  // all wait, so that many are computed together
  ASSERT_TRUE(Eventually([&] { return std::all_of(jobs.begin(), jobs.end(), AllFinished); }));
  int together = 0;
  for (int i = 0; i < kJobsEach; ++i) {
    for (const Jobs& own : jobs) {
      ASSERT_THAT(own[i]->status(), IsOk());
      EXPECT_EQ(own[i]->output(), jobs[0][i]->output()) << "the same request, in other company";
      together += own[i]->stats().batch_requests > 1 ? 1 : 0;
    }
  }
  EXPECT_GT(together, 0);
}

TEST(ExecutorTest, PinsEveryComputeThreadToANumaNode) {
  FakeNuma numa({{.id = 0, .cpus = {0, 1}}, {.id = 1, .cpus = {2, 3}}});
  ExecutorOptions options = kOptions;
  options.num_threads = 4;
  const Executor executor(options);
  ASSERT_TRUE(Eventually([&] { return numa.pins().size() >= 4; }));
  EXPECT_THAT(numa.pins(),
              ::testing::UnorderedElementsAre(std::vector<int>{0, 1}, std::vector<int>{0, 1},
                                              std::vector<int>{2, 3}, std::vector<int>{2, 3}))
      << "the dispatcher is one of them";
}

TEST(ExecutorTest, AJobWithoutMemoryIsComputedWithoutIt) {
  Executor executor(kOptions);
  const auto with = FakeJob::Make({.cache_bytes = 1});
  const auto without = FakeJob::Make({.cache_bytes = 1, .has_memory = false});
  for (const auto& job : {with, without}) {
    ASSERT_THAT(executor.Submit(job), IsOk());
    ASSERT_TRUE(Eventually([&] { return job->is_finished(); }));
    ASSERT_THAT(job->status(), IsOk());
    EXPECT_EQ(job->output(), with->output());
  }
  EXPECT_EQ(without->description().cache_bytes, 0);
  EXPECT_EQ(executor.statistics().queue.requests, 0);
}

TEST(ExecutorTest, RepliesThatNobodyTakesLeaveNoRoomForMore) {
  ExecutorOptions options = kOptions;
  options.max_reply_bytes = 1000;
  Executor executor(options);
  const auto submit = [&](int64_t reply_bytes) {
    auto job = FakeJob::Make({.lengths = {1}, .reply_bytes = reply_bytes});
    const absl::Status status = executor.Submit(job);
    EXPECT_TRUE(!status.ok() || Eventually([&] { return job->is_finished(); }));
    return std::pair(status, job);
  };
  auto [larger_alone, large] = submit(2000);
  EXPECT_THAT(larger_alone, IsOk());
  const absl::Status none = executor.CheckRoom({}, TimePoint::max());
  EXPECT_THAT(none, StatusIs(absl::StatusCode::kResourceExhausted,
                             "replies of 2000 bytes are computed or sent; the limit is 1000 "
                             "(--max-reply-bytes)"));
  EXPECT_EQ(ReasonOf(none), RefusalReason::kReplyBytes);
  EXPECT_GT(RefusalOf(none)->retry_after_ms, 0);
  EXPECT_FALSE(large->is_given_up());
  large->SetReplyComputed(std::chrono::steady_clock::now() - std::chrono::hours(1));
  EXPECT_FALSE(executor.CheckRoom({}, TimePoint::max()).ok());
  EXPECT_TRUE(large->is_given_up()) << "nobody took it, and it was in the way";
  large.reset();  // the reply has gone
  EXPECT_TRUE(Eventually([&] { return executor.statistics().reply_bytes == 0; }));
  auto [first, one] = submit(600);
  EXPECT_THAT(first, IsOk());
  EXPECT_THAT(submit(600).first, StatusIs(absl::StatusCode::kResourceExhausted,
                                          ::testing::HasSubstr("replies of 600 bytes")));
  EXPECT_THAT(submit(400).first, IsOk());
}

/// A job that finds no memory once, when another has taken its place in the queue.
class LateJob final : public FakeRowsJob {
 public:
  LateJob(Executor& executor, std::shared_ptr<FakeJob> other)
      : FakeRowsJob(FakeJobSpec()), executor_(executor), other_(std::move(other)) {}

  bool TakeMemory() override {
    if (other_ == nullptr) {
      return true;
    }
    EXPECT_THAT(executor_.Submit(std::exchange(other_, nullptr)), IsOk());
    return false;
  }
  void OnRows(const RowRange&) override {}
  void Finish(const absl::Status& status, const BatchStats&) override {
    status_ = status;
    is_finished_ = true;
  }

  bool is_finished() const { return is_finished_; }
  const absl::Status& status() const { return status_; }

 private:
  Executor& executor_;
  std::shared_ptr<FakeJob> other_;
  absl::Status status_ = absl::UnknownError("not finished");
  std::atomic<bool> is_finished_ = false;
};

TEST(ExecutorTest, AnAdmittedJobIsNotRefusedWhenItIsQueuedAgain) {
  ExecutorOptions options = kOptions;
  options.queue.max_requests = 1;
  Executor executor(options);
  const auto other = FakeJob::Make();
  const auto late = std::make_shared<LateJob>(executor, other);
  ASSERT_THAT(executor.Submit(late), IsOk());
  ASSERT_TRUE(Eventually([&] { return late->is_finished() && other->is_finished(); }));
  EXPECT_THAT(late->status(), IsOk());
  EXPECT_THAT(other->status(), IsOk());
}

TEST(ExecutorTest, ARequestThatWaitsForOthersOfItsBatchIsWork) {
  ExecutorOptions options = kOptions;
  options.batch.max_delay = std::chrono::hours(1);
  Executor executor(options);
  EXPECT_FALSE(executor.progress().has_work);
  const auto job = FakeJob::Make({.arrival = std::chrono::steady_clock::now()});
  ASSERT_THAT(executor.Submit(job), IsOk());
  EXPECT_EQ(executor.statistics().running_requests, 0);
  EXPECT_TRUE(executor.progress().has_work);
}

// Submits a short job as soon as its own first rows are there.
class LongJob final : public FakeRowsJob {
 public:
  LongJob(Executor& executor, std::shared_ptr<FakeJob> passenger)
      : FakeRowsJob(Spec()), executor_(executor), passenger_(std::move(passenger)) {}

  static FakeJobSpec Spec() {
    return {.lengths = {2048}, .seed = 3, .flops = 1e12, .wants_rows = true};
  }

  void OnRows(const RowRange&) override {
    if (!was_submitted_) {
      was_submitted_ = true;
      EXPECT_THAT(executor_.Submit(passenger_), IsOk());
    }
  }
  void Finish(const absl::Status& status, const BatchStats&) override {
    EXPECT_THAT(status, IsOk());
    passenger_was_finished_ = passenger_->is_finished();
    is_finished_ = true;
  }

  bool is_finished() const { return is_finished_; }
  bool passenger_was_finished() const { return passenger_was_finished_; }

 private:
  Executor& executor_;
  const std::shared_ptr<FakeJob> passenger_;
  bool was_submitted_ = false;
  bool passenger_was_finished_ = false;
  std::atomic<bool> is_finished_ = false;
};

TEST(ExecutorTest, AShortJobPassesALongOneAndNeitherChanges) {
  Executor executor(kOptions);
  const auto alone = FakeJob::Make({.lengths = {20}, .seed = 5});
  const auto long_alone = FakeJob::Make(LongJob::Spec());
  for (const auto& job : {alone, long_alone}) {
    ASSERT_THAT(executor.Submit(job), IsOk());
    ASSERT_TRUE(Eventually([&] { return job->is_finished(); }));
  }
  const auto passenger = FakeJob::Make({.lengths = {20}, .seed = 5});
  const auto job = std::make_shared<LongJob>(executor, passenger);
  ASSERT_THAT(executor.Submit(job), IsOk());
  ASSERT_TRUE(Eventually([&] { return job->is_finished(); }));
  EXPECT_TRUE(job->passenger_was_finished());
  EXPECT_EQ(passenger->output(), alone->output());
  EXPECT_EQ(job->output(), long_alone->output());
  EXPECT_EQ(executor.statistics().interleaved_batches, 1);
}

TEST(ExecutorTest, StopRefusesTheJobsThatWait) {
  Executor executor(kOptions);
  Blockade blockade(executor);
  Jobs jobs;
  for (int i = 0; i < 100; ++i) {
    jobs.push_back(FakeJob::Make({.lengths = {200}}));
    ASSERT_THAT(executor.Submit(jobs.back()), IsOk());
  }
  std::thread stopping([&] { executor.Stop(); });
  EXPECT_TRUE(Eventually([&] { return !executor.CheckRoom({}, TimePoint::max()).ok(); }));
  blockade.Release();
  stopping.join();
  for (const auto& job : jobs) {
    ASSERT_TRUE(job->is_finished());
    EXPECT_THAT(job->status(), StatusIs(absl::StatusCode::kUnavailable, testing::_));
  }
  EXPECT_THAT(executor.Submit(FakeJob::Make()),
              StatusIs(absl::StatusCode::kUnavailable, "the server is draining"));
}

TEST(ExecutorFailureTest, ABatchThatThrowsLeavesNothingCounted) {
  Executor executor(kOptions);
  for (int i = 0; i < 3; ++i) {
    const auto throwing = FakeJob::Make({.reply_bytes = 1000});
    throwing->FailGathering([] { throw std::bad_alloc(); });
    ASSERT_THAT(executor.Submit(throwing), IsOk());
    ASSERT_TRUE(Eventually([&] { return throwing->is_finished(); }));
    EXPECT_EQ(throwing->status().code(), absl::StatusCode::kResourceExhausted);
  }
  const auto next = FakeJob::Make();
  ASSERT_THAT(executor.Submit(next), IsOk());
  ASSERT_TRUE(Eventually([&] {
    const ExecutorStatistics now = executor.statistics();
    return next->is_finished() && now.running_requests == 0 && now.reply_bytes == 0 &&
           now.queue.requests == 0 && now.queue.bytes == 0 && now.queue.work_ns == 0;
  }));
  EXPECT_THAT(next->status(), IsOk());
}

}  // namespace
}  // namespace attention
