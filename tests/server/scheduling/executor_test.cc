#include "server/scheduling/executor.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "server/scheduling/refusal.h"
#include "tests/server/scheduling/fake_job.h"
#include "tests/support/eventually.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

const ExecutorOptions kOptions = {.num_threads = 2,
                                  .batch = {.max_tokens = 256},
                                  .queue = {.max_bytes = 1 << 30, .max_requests = 1 << 20}};

using ::testing::ElementsAre;

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

bool AllFinished(const Jobs& jobs) {
  return std::all_of(jobs.begin(), jobs.end(), [](const auto& job) { return job->is_finished(); });
}

TEST(ExecutorTest, FinishesEveryJobOnceWithItsOwnAnswer) {
  Executor executor(kOptions);
  std::vector<Jobs> jobs(kProducers);
  std::vector<std::thread> producers;
  for (Jobs& own : jobs) {
    producers.emplace_back([&] { Produce(executor, own); });
  }
  for (std::thread& producer : producers) {
    producer.join();
  }
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
                             "replies of 2000 bytes are computed or sent, 0 more would exceed the "
                             "limit of 1000 (--max-reply-bytes)"));
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

// Submits a short job as soon as its own first rows are there.
class LongJob final : public Job {
 public:
  LongJob(Executor& executor, std::shared_ptr<FakeJob> passenger)
      : Job(Describe()), executor_(executor), passenger_(std::move(passenger)), job_(Spec()) {}

  static FakeJobSpec Spec() {
    return {.lengths = {2048}, .seed = 3, .flops = 1e12, .wants_rows = true};
  }

  bool is_cancelled() const override { return false; }
  void Prepare() override { job_.Prepare(); }
  void Gather(Operand operand, Dtype dtype, void* target) override {
    job_.Gather(operand, dtype, target);
  }
  void DropInputs() override {}
  void* Output(size_t sequence) override { return job_.Output(sequence); }
  ScoreOutputs Scores(size_t) override { return {}; }
  AttentionOptions Options(size_t) const override { return {}; }
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
  const std::vector<float>& output() const { return job_.output(); }

 private:
  static JobDescription Describe() { return FakeJob(Spec()).description(); }

  Executor& executor_;
  const std::shared_ptr<FakeJob> passenger_;
  FakeJob job_;
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

// A clock that only jobs move.
class SimulatedExecutorTest : public ::testing::Test {
 protected:
  // Its rows take the time that the test says; what comes meanwhile comes at its first rows.
  class Timed final : public Job {
   public:
    Timed(SimulatedExecutorTest& test, std::string name, const FakeJobSpec& spec)
        : Job(FakeJob(spec).description()), test_(test), name_(std::move(name)), job_(spec) {}

    bool is_cancelled() const override { return is_cancelled_; }
    void Prepare() override { job_.Prepare(); }
    void Gather(Operand operand, Dtype dtype, void* target) override {
      job_.Gather(operand, dtype, target);
    }
    void DropInputs() override {}
    void* Output(size_t sequence) override { return job_.Output(sequence); }
    ScoreOutputs Scores(size_t) override { return {}; }
    AttentionOptions Options(size_t) const override { return {}; }
    void OnRows(const RowRange& rows) override {
      for (const auto& [row, action] : at_rows) {
        if (rows.first_row <= row && row < rows.first_row + rows.rows) {
          action();
        }
      }
      test_.Pass(rows.rows * ns_per_row);
    }
    void Finish(const absl::Status& status, const BatchStats&) override {
      MutexLock lock(test_.mutex_);
      test_.ended_.push_back(status.ok() ? name_ : name_ + " not");
    }
    void Cancel() { is_cancelled_ = true; }
    const std::vector<float>& output() const { return job_.output(); }

    std::vector<std::pair<int64_t, std::function<void()>>> at_rows;
    int64_t ns_per_row = 0;

   private:
    SimulatedExecutorTest& test_;
    const std::string name_;
    FakeJob job_;
    std::atomic<bool> is_cancelled_ = false;
  };

  // Its estimate is its flops / 2e11 seconds (two threads, and nothing known); longer than 20 ms is
  // long.
  std::shared_ptr<Timed> Make(const std::string& name, Priority priority, double ms) {
    FakeJobSpec spec = {.lengths = {2048}, .flops = ms * 2e8, .wants_rows = true};
    spec.request_class = {.priority = priority, .account = name};
    auto job = std::make_shared<Timed>(*this, name, spec);
    job->ns_per_row = static_cast<int64_t>(ms * 1e6 / 2048);
    return job;
  }

  void Submit(const std::shared_ptr<Job>& job) { EXPECT_THAT(executor_.Submit(job), IsOk()); }
  void Pass(int64_t ns) { now_ns_ += ns; }

  std::vector<std::string> WaitForEnds(size_t count) {
    EXPECT_TRUE(Eventually([&] {
      MutexLock lock(mutex_);
      return ended_.size() >= count;
    }));
    MutexLock lock(mutex_);
    return ended_;
  }

  std::atomic<int64_t> now_ns_ = 3'600'000'000'000;
  Mutex mutex_;
  std::vector<std::string> ended_ ABSL_GUARDED_BY(mutex_);
  Executor executor_{{.num_threads = 2,
                      .batch = {.max_tokens = 4096, .max_flops = 2e9},
                      .queue = {.max_bytes = 1 << 30, .max_requests = 1 << 20},
                      .clock = [this] { return TimePoint(std::chrono::nanoseconds(now_ns_)); }}};
};

TEST_F(SimulatedExecutorTest, AHighPriorityPassesALowOneHoweverLongBothAre) {
  const auto low = Make("low", Priority::kLow, 60'000);
  const auto high = Make("high", Priority::kHigh, 500);
  low->at_rows = {{0, [&] { Submit(high); }}};
  Submit(low);
  EXPECT_THAT(WaitForEnds(2), ElementsAre("high", "low"));
  EXPECT_EQ(executor_.statistics().interleaved_batches, 1);
}

TEST_F(SimulatedExecutorTest, ALowPriorityDoesNotPassAHighOne) {
  const auto high = Make("high", Priority::kHigh, 60'000);
  const auto low = Make("low", Priority::kLow, 1000);
  high->at_rows = {{0, [&] { Submit(low); }}};
  Submit(high);
  EXPECT_THAT(WaitForEnds(2), ElementsAre("high", "low"));
}

TEST_F(SimulatedExecutorTest, AnEqualPassesWhenTheLongOneHasHadAsMuch) {
  const auto one = Make("one", Priority::kNormal, 60'000);
  const auto shorter = Make("shorter", Priority::kNormal, 5000);
  const auto equal = Make("equal", Priority::kNormal, 61'000);
  one->at_rows = {{0,
                   [&] {
                     Submit(equal);
                     Submit(shorter);
                   }},
                  {100, [&] { EXPECT_EQ(executor_.statistics().interleaved_batches, 0); }},
                  {1000, [&] { EXPECT_EQ(executor_.statistics().interleaved_batches, 1); }}};
  Submit(one);
  EXPECT_THAT(WaitForEnds(3), ElementsAre("shorter", "one", "equal"));
}

TEST_F(SimulatedExecutorTest, WhatPassesIsPassedInTurnAndNoDeeperThanThreeAreInMemory) {
  const auto low = Make("low", Priority::kLow, 600'000);
  const auto normal = Make("normal", Priority::kNormal, 10'000);
  const auto high = Make("high", Priority::kHigh, 100);
  const auto quick = Make("quick", Priority::kHigh, 11);
  low->at_rows = {{0, [&] { Submit(normal); }}};
  normal->at_rows = {{0, [&] {
                        Submit(high);
                        Submit(quick);
                      }}};
  Submit(low);
  EXPECT_THAT(WaitForEnds(4), ElementsAre("quick", "normal", "high", "low"))
      << "the third is a long one";
}

TEST_F(SimulatedExecutorTest, PassingChangesNoBits) {
  const auto alone = Make("alone", Priority::kLow, 60'000);
  Submit(alone);
  WaitForEnds(1);
  const auto low = Make("low", Priority::kLow, 60'000);
  const auto high = Make("high", Priority::kHigh, 500);
  low->at_rows = {{0, [&] { Submit(high); }}};
  Submit(low);
  WaitForEnds(3);
  EXPECT_EQ(low->output(), alone->output());
  EXPECT_EQ(high->output(), alone->output()) << "the same tensors";
}

TEST_F(SimulatedExecutorTest, ACancelledLongJobLeavesTheQueueWhileAnotherRuns) {
  const auto first = Make("first", Priority::kNormal, 60'000);
  const auto second = Make("second", Priority::kNormal, 50'000);
  bool has_left = false;
  first->at_rows = {{0, [&] { Submit(second); }},
                    {100, [&] { second->Cancel(); }},
                    {1500, [&] { has_left = executor_.statistics().queue.requests == 0; }}};
  Submit(first);
  EXPECT_THAT(WaitForEnds(2), ElementsAre("second not", "first"));
  EXPECT_TRUE(has_left);
}

TEST_F(SimulatedExecutorTest, RequestsThatAreRefusedTeachNothing) {
  std::vector<std::shared_ptr<Timed>> jobs;
  for (int i = 0; i < 4; ++i) {
    jobs.push_back(Make(absl::StrCat(i), Priority::kNormal, 1000));
    Submit(jobs.back());
    WaitForEnds(jobs.size());
  }
  const auto hurried = [&] {
    FakeJobSpec spec = {.lengths = {2048}, .flops = 1000 * 2e8, .wants_rows = true};
    spec.request_class.account = "hurried";
    spec.deadline = TimePoint(std::chrono::nanoseconds(now_ns_ + 1'000'000));
    auto job = std::make_shared<Timed>(*this, "hurried", spec);
    job->ns_per_row = 500'000;
    return executor_.Submit(job);
  };
  EXPECT_THAT(hurried(), IsOk()) << "one is tried";
  EXPECT_EQ(WaitForEnds(jobs.size() + 1).back(), "hurried not");
  for (int i = 0; i < 1000; ++i) {
    ASSERT_THAT(hurried(), StatusIs(absl::StatusCode::kDeadlineExceeded,
                                    "the request takes about 1000 ms, its deadline is in 1 ms"));
  }
}

TEST_F(SimulatedExecutorTest, AnEstimateThatIsTooLargeIsCorrectedByRequestsThatItWouldRefuse) {
  const auto due = [&](int64_t left_ms) {
    FakeJobSpec spec = {.lengths = {64}, .flops = 1e8};
    spec.request_class.account = "patient";
    spec.deadline = TimePoint(std::chrono::nanoseconds(now_ns_ + left_ms * 1'000'000));
    return FakeJob::Make(spec);
  };
  const auto run = [&](int64_t took_ns) {
    auto job = std::make_shared<Timed>(
        *this, "slow", FakeJobSpec{.lengths = {64}, .flops = 1e8, .wants_rows = true});
    job->ns_per_row = took_ns / 64;
    Submit(job);
  };
  for (size_t i = 1; i <= 3; ++i) {
    run(i == 3 ? 20'000'000'000 : 1'000'000);  // the machine stood still
    WaitForEnds(i);
  }
  int tried = 0;
  absl::Status status = executor_.Submit(due(100));
  for (int second = 0; second < 30; ++second) {
    EXPECT_TRUE(Eventually([&] {
      const ExecutorStatistics now = executor_.statistics();
      return now.queue.requests == 0 && now.running_requests == 0;
    }));
    tried += status.ok() ? 1 : 0;
    Pass(1'000'000'000);
    status = executor_.Submit(due(100));
  }
  EXPECT_GT(tried, 25) << "one a second, and then all";
  EXPECT_THAT(executor_.Submit(due(100)), IsOk()) << "within the same second";
}

TEST(ExecutorTest, StopFinishesWhatWasAccepted) {
  std::vector<std::shared_ptr<FakeJob>> jobs;
  Executor executor(kOptions);
  for (int i = 0; i < 100; ++i) {
    jobs.push_back(FakeJob::Make({.lengths = {200}}));
    ASSERT_THAT(executor.Submit(jobs.back()), IsOk());
  }
  executor.Stop();
  for (const auto& job : jobs) {
    ASSERT_TRUE(job->is_finished());
    EXPECT_TRUE(job->status().ok() || absl::IsUnavailable(job->status())) << job->status();
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
