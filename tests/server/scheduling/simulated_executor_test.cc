// Which jobs pass which, and what estimates learn, by a clock that only jobs move.
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "server/scheduling/executor.h"
#include "server/scheduling/refusal.h"
#include "tests/server/scheduling/fake_job.h"
#include "tests/support/eventually.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::ElementsAre;

class SimulatedExecutorTest : public ::testing::Test {
 protected:
  // Its rows take the time that the test says; what comes meanwhile comes at its first rows.
  class Timed final : public FakeRowsJob {
   public:
    Timed(SimulatedExecutorTest& test, std::string name, const FakeJobSpec& spec)
        : FakeRowsJob(spec), test_(test), name_(std::move(name)) {}

    bool is_cancelled() const override { return is_cancelled_; }
    bool TakeMemory() override { return std::exchange(has_memory, true); }
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

    std::vector<std::pair<int64_t, std::function<void()>>> at_rows;
    int64_t ns_per_row = 0;
    bool has_memory = true;  // otherwise there is some at the second attempt

   private:
    SimulatedExecutorTest& test_;
    const std::string name_;
    std::atomic<bool> is_cancelled_ = false;
  };

  // Its estimate is its flops / 2e11 seconds (two threads, and nothing known); longer than 20 ms is
  // long.
  std::shared_ptr<Timed> Make(const std::string& name, Priority priority, double ms,
                              TimePoint deadline = TimePoint::max()) {
    FakeJobSpec spec = {.lengths = {2048}, .flops = ms * 2e8, .wants_rows = true};
    spec.request_class = {.priority = priority, .account = name};
    spec.deadline = deadline;
    auto job = std::make_shared<Timed>(*this, name, spec);
    job->ns_per_row = static_cast<int64_t>(ms * 1e6 / 2048);
    return job;
  }

  void Submit(const std::shared_ptr<Job>& job) { EXPECT_THAT(executor_.Submit(job), IsOk()); }
  void Pass(int64_t ns) { now_ns_ += ns; }
  TimePoint After(int64_t ms) const {
    return TimePoint(std::chrono::nanoseconds(now_ns_ + ms * 1'000'000));
  }

  // The first two teach nothing; the others, that what Make makes takes as long as it expects.
  void LearnSpeed() {
    for (size_t i = 1; i <= 4; ++i) {
      Submit(Make("teacher", Priority::kNormal, 1000));
      WaitForEnds(i);
    }
  }

  // Returns the names of the jobs that ended, in order, when `count` have ended and the executor
  // has learned from their batches. A test that has failed, perhaps as a job was refused, waits no
  // longer.
  std::vector<std::string> WaitForEnds(size_t count) {
    const auto have_ended = [&] {
      MutexLock lock(mutex_);
      return ended_.size() >= count && executor_.statistics().running_requests == 0;
    };
    Eventually([&] { return have_ended() || HasFailure(); });
    if (!have_ended()) {
      executor_.Stop();  // the jobs use what the test holds
      ADD_FAILURE() << "expected the end of " << count << " jobs";
    }
    MutexLock lock(mutex_);
    return ended_;
  }

  std::atomic<int64_t> now_ns_ = 3'600'000'000'000;
  Mutex mutex_;
  std::vector<std::string> ended_ ABSL_GUARDED_BY(mutex_);
  Executor executor_{{.num_threads = 2,
                      .batch = {.max_tokens = 4096, .max_flops = 2e9},
                      .queue = {.max_bytes = 1 << 30, .max_requests = 1 << 20},
                      .max_reply_bytes = 1000,
                      .flops_per_ns = 100,
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
  for (int i = 0; i < 100; ++i) {
    ASSERT_THAT(hurried(), StatusIs(absl::StatusCode::kDeadlineExceeded,
                                    "the request takes about 1000 ms, its deadline is in 1 ms"));
  }
}

TEST_F(SimulatedExecutorTest, AnEstimateThatIsTooLargeIsCorrectedByRequestsThatItWouldRefuse) {
  const auto due = [&](int64_t left_ms) {
    FakeJobSpec spec = {.lengths = {64}, .flops = 1e8};
    spec.request_class.account = "patient";
    spec.deadline = After(left_ms);
    return std::make_shared<Timed>(*this, "patient", spec);
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
  EXPECT_THAT(executor_.Submit(due(100)), IsOk()) << "one is tried";
  WaitForEnds(4);
  EXPECT_TRUE(absl::IsDeadlineExceeded(executor_.Submit(due(100)))) << "within the same second";
  for (size_t second = 1; second < 30; ++second) {
    Pass(1'000'000'000);
    EXPECT_THAT(executor_.Submit(due(100)), IsOk()) << "one a second, and then all";
    WaitForEnds(4 + second);
  }
  EXPECT_THAT(executor_.Submit(due(100)), IsOk()) << "within the same second";
}

TEST_F(SimulatedExecutorTest, TheTimeOfWhatPassedIsCountedOnce) {
  const auto low = Make("low", Priority::kLow, 60'000);
  const auto high = Make("high", Priority::kHigh, 500);
  low->at_rows = {{0, [&] { Submit(high); }}};
  Submit(low);
  WaitForEnds(2);
  EXPECT_TRUE(Eventually([&] { return executor_.statistics().running_requests == 0; }));
  EXPECT_NEAR(static_cast<double>(executor_.statistics().busy_ns), 60.5e9, 1e8);
}

TEST_F(SimulatedExecutorTest, EstimatesKnowHowMuchOfALongBatchIsLeft) {
  const auto high = Make("high", Priority::kHigh, 60'000);
  const auto quick = Make("quick", Priority::kHigh, 5);
  absl::Status hurried;
  const auto hurry = [&] {
    hurried = executor_.Submit(Make("hurried", Priority::kLow, 1000, After(1)));
  };
  high->at_rows = {{100, [&] { Submit(quick); }}, {1024, hurry}};
  Submit(high);
  EXPECT_THAT(WaitForEnds(2), ElementsAre("quick", "high"));
  ASSERT_TRUE(RefusalOf(hurried).has_value()) << hurried;
  EXPECT_NEAR(static_cast<double>(RefusalOf(hurried)->estimated_wait_ms), 30'000, 8000);
}

TEST_F(SimulatedExecutorTest, AShortJobPassesABatchThatTakesLongerThanExpected) {
  const auto slow = Make("slow", Priority::kNormal, 0.5);
  slow->ns_per_row = 30'000'000;  // a minute
  const auto quick = Make("quick", Priority::kNormal, 5);
  slow->at_rows = {{0, [&] { Submit(quick); }}};
  Submit(slow);
  EXPECT_THAT(WaitForEnds(2), ElementsAre("quick", "slow"));
}

TEST_F(SimulatedExecutorTest, AnExpiredRequestIsNotTheOneThatIsTried) {
  LearnSpeed();
  const auto expired = Make("hurried", Priority::kNormal, 1000, After(1));
  Pass(2'000'000);
  EXPECT_TRUE(absl::IsDeadlineExceeded(executor_.Submit(expired)));
  Submit(Make("hurried", Priority::kNormal, 1000, After(1)));
  WaitForEnds(5);
}

TEST_F(SimulatedExecutorTest, TheOneThatIsTriedIsChargedWithItsEstimate) {
  LearnSpeed();
  const auto running = Make("teacher", Priority::kHigh, 100);
  int64_t waiting_ns = 0;
  running->at_rows = {{0, [&] {
                         Submit(Make("tried", Priority::kNormal, 1000, After(500)));
                         waiting_ns = executor_.statistics().queue.work_ns;
                       }}};
  Submit(running);
  WaitForEnds(6);
  EXPECT_NEAR(static_cast<double>(waiting_ns), 1e9, 1e8);
}

TEST_F(SimulatedExecutorTest, TheOneThatIsTriedIsComputedAlsoIfItFoundNoMemoryAtFirst) {
  LearnSpeed();
  const auto tried = Make("tried", Priority::kNormal, 1000, After(500));
  tried->has_memory = false;
  bool is_computed = false;
  tried->at_rows = {{0, [&] { is_computed = true; }}};
  Submit(tried);
  WaitForEnds(5);
  EXPECT_TRUE(is_computed) << "until its deadline";
}

TEST_F(SimulatedExecutorTest, ARefusedReplySaysWhoseItIsAndWhenToRetry) {
  FakeJobSpec spec = {.lengths = {1}, .reply_bytes = 850, .request_class = {.account = "greedy"}};
  const auto held = FakeJob::Make(spec);
  Submit(held);
  ASSERT_TRUE(Eventually([&] { return held->is_finished(); }));
  spec.reply_bytes = 20;
  std::vector<std::shared_ptr<FakeJob>> more;
  absl::Status refused;
  const auto running = Make("running", Priority::kHigh, 1000);
  running->at_rows = {{0, [&] {
                         Submit(Make("waiting", Priority::kLow, 5000));
                         while (refused.ok() && more.size() < 20) {
                           more.push_back(FakeJob::Make(spec));
                           refused = executor_.Submit(more.back());
                         }
                       }}};
  Submit(running);
  WaitForEnds(2);
  EXPECT_EQ(ReasonOf(refused), RefusalReason::kTenantShare) << refused;
  EXPECT_GE(RefusalOf(refused)->retry_after_ms, 5000) << "when what waits is done";
}

}  // namespace
}  // namespace attention
