#include "server/scheduling/batch_runner.h"

#include <new>
#include <stdexcept>

#include "gmock/gmock.h"
#include "tests/server/scheduling/fake_job.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Batch BatchOf(const std::vector<std::shared_ptr<FakeJob>>& jobs) {
  Batch batch;
  batch.id = 7;
  for (const auto& job : jobs) {
    batch.jobs.push_back(job);
    batch.sequences += std::ssize(job->description().sequences);
    batch.tokens += job->description().tokens;
  }
  return batch;
}

class BatchRunnerTest : public ::testing::Test {
 protected:
  void Run(const std::vector<std::shared_ptr<FakeJob>>& jobs) {
    Batch batch = BatchOf(jobs);
    batch.start = now_;
    runner_.Run(batch);
  }
  std::vector<float> Alone(const FakeJobSpec& spec) {
    const auto job = FakeJob::Make(spec);
    Run({job});
    EXPECT_THAT(job->status(), IsOk());
    return job->output();
  }

  TimePoint now_ = TimePoint(std::chrono::hours(1));
  ThreadPool pool_{2};
  BatchRunner runner_{pool_, [this] { return now_; }};
};

TEST_F(BatchRunnerTest, AnswersEachJobAsIfItWereAlone) {
  const FakeJobSpec specs[] = {
      {.lengths = {3, 70}, .seed = 1}, {.lengths = {1}, .seed = 2}, {.lengths = {33}, .seed = 3}};
  std::vector<std::shared_ptr<FakeJob>> jobs;
  for (const FakeJobSpec& spec : specs) {
    jobs.push_back(FakeJob::Make(spec));
  }
  Run(jobs);
  for (size_t i = 0; i < jobs.size(); ++i) {
    ASSERT_TRUE(jobs[i]->is_finished());
    EXPECT_THAT(jobs[i]->status(), IsOk());
    EXPECT_EQ(jobs[i]->output(), Alone(specs[i])) << "job " << i;
  }
}

TEST_F(BatchRunnerTest, AllThreadsCopyTheRowsOfOneLargeJobEachOnce) {
  const auto large = FakeJob::Make({.lengths = {900, 0, 2100}, .seed = 4});
  Run({FakeJob::Make({.lengths = {5}}), large});
  EXPECT_THAT(large->status(), IsOk());
  for (const Operand operand : {Operand::kQuery, Operand::kKey, Operand::kValue}) {
    const std::vector<OperandRows> copies = large->GatheredRows(operand);
    EXPECT_GT(copies.size(), 2u);
    int64_t next = 0;
    for (const OperandRows& rows : copies) {
      EXPECT_EQ(rows.first, next);
      next += rows.count;
    }
    EXPECT_EQ(next, 3000);
  }
  const std::vector<float> together = large->output();
  EXPECT_EQ(together, Alone({.lengths = {900, 0, 2100}, .seed = 4}));
}

// Large inputs are gathered by all threads, small ones by the caller.
TEST_F(BatchRunnerTest, WhatABatchThrowsEndsItsJobsAndNothingElse) {
  for (const int64_t length : {5, 3000}) {
    for (const bool is_memory : {true, false}) {
      const auto throwing = FakeJob::Make({.lengths = {length}});
      const auto mate = FakeJob::Make({.lengths = {length}, .seed = 2});
      throwing->FailGathering([is_memory] {
        if (is_memory) {
          throw std::bad_alloc();
        }
        throw std::runtime_error("no kernel");
      });
      Run({mate, throwing});
      for (const auto& job : {mate, throwing}) {
        ASSERT_TRUE(job->is_finished());
        EXPECT_THAT(job->status(), is_memory ? StatusIs(absl::StatusCode::kResourceExhausted,
                                                        "computing the batch failed: out of memory")
                                             : StatusIs(absl::StatusCode::kInternal,
                                                        "computing the batch failed: no kernel"));
      }
      const auto next = FakeJob::Make({.lengths = {length}, .seed = 2});
      Run({next});
      EXPECT_THAT(next->status(), IsOk());
    }
  }
}

TEST_F(BatchRunnerTest, ReportsWhatWasComputedTogether) {
  const auto first = FakeJob::Make({.lengths = {3, 5}});
  const auto second = FakeJob::Make({.lengths = {2}});
  Run({first, second});
  for (const auto& job : {first, second}) {
    EXPECT_EQ(job->stats().batch_id, 7);
    EXPECT_EQ(job->stats().batch_requests, 2);
    EXPECT_EQ(job->stats().batch_sequences, 3);
    EXPECT_EQ(job->stats().batch_tokens, 10);
    EXPECT_EQ(job->stats().queue_ns, nanoseconds(std::chrono::hours(1)).count());
    EXPECT_EQ(job->stats().compute_ns, 0);
    EXPECT_TRUE(job->dropped_inputs());
  }
}

TEST_F(BatchRunnerTest, AnnouncesEveryRowOnceInOrderToThoseWhoWantIt) {
  const FakeJobSpec spec = {.lengths = {600, 1, 300}, .seed = 5};
  FakeJobSpec streamed_spec = spec;
  streamed_spec.wants_rows = true;
  const auto silent = FakeJob::Make(spec);
  const auto streamed = FakeJob::Make(streamed_spec);
  Run({silent, streamed});
  EXPECT_THAT(silent->announced(), IsEmpty());
  EXPECT_GT(streamed->announced().size(), 3) << "blocks come before the whole is finished";
  std::vector<int64_t> next_row(3, 0);
  for (const RowRange& rows : streamed->announced()) {
    ASSERT_LT(rows.sequence, 3);
    EXPECT_EQ(rows.first_row, next_row[rows.sequence]);
    next_row[rows.sequence] += rows.rows;
  }
  EXPECT_EQ(next_row, spec.lengths);
  EXPECT_EQ(streamed->output(), Alone(spec)) << "streamed and whole answers have the same bits";
  EXPECT_EQ(silent->output(), streamed->output());
}

TEST_F(BatchRunnerTest, DoesNotStartWhatNobodyWaitsFor) {
  const auto cancelled = FakeJob::Make();
  const auto expired = FakeJob::Make({.deadline = now_ - milliseconds(1)});
  cancelled->Cancel();
  Run({cancelled, expired});
  EXPECT_THAT(cancelled->status(),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("while the request was computed")));
  EXPECT_THAT(expired->status(),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("was computed")));
  EXPECT_THAT(cancelled->output(), IsEmpty());
}

TEST_F(BatchRunnerTest, StopsAtARowBlockWhenNobodyWaitsAnyMore) {
  const auto job = FakeJob::Make({.lengths = {2000}, .wants_rows = true});
  job->CancelAfterRows();
  Run({job});
  EXPECT_THAT(job->status(),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("while the request was computed")));
  EXPECT_EQ(job->announced().size(), 1);
}

TEST_F(BatchRunnerTest, ALongBatchEndsAtThePartInWhichItsCallerCancels) {
  for (const int last : {1, 5, 1000}) {
    const auto job = FakeJob::Make({.lengths = {2000}});
    Batch batch = BatchOf({job});
    batch.is_long = true;
    batch.flops = 1e15;  // as if: so that parts are as short as can be
    int parts = 0;
    runner_.Run(batch, [&](int64_t) {
      if (++parts == last) {
        job->Cancel();
      }
      return false;
    });
    if (last < 1000) {
      EXPECT_TRUE(absl::IsCancelled(job->status())) << job->status();
      EXPECT_EQ(parts, last);
    } else {
      EXPECT_THAT(job->status(), IsOk());
      EXPECT_GT(parts, 10);
    }
  }
}

TEST_F(BatchRunnerTest, GoesOnForTheOthersWhenOneCancels) {
  const auto quitter = FakeJob::Make({.lengths = {600}, .seed = 1, .wants_rows = true});
  const auto patient = FakeJob::Make({.lengths = {600}, .seed = 2});
  quitter->CancelAfterRows();
  Run({quitter, patient});
  EXPECT_THAT(patient->status(), IsOk());
  EXPECT_EQ(patient->output(), Alone({.lengths = {600}, .seed = 2}));
}

TEST_F(BatchRunnerTest, SaysUnavailableAfterAbort) {
  runner_.Abort();
  const auto job = FakeJob::Make();
  Run({job});
  EXPECT_THAT(job->status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("the server shut down")));
}

TEST_F(BatchRunnerTest, AnswersAJobWithoutRows) {
  const auto job = FakeJob::Make({.lengths = {}});
  Run({job});
  EXPECT_THAT(job->status(), IsOk());
}

}  // namespace
}  // namespace attention
