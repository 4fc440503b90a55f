#include "server/scheduling/executor.h"

#include <algorithm>
#include <thread>

#include "gmock/gmock.h"
#include "tests/server/scheduling/fake_job.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

constexpr ExecutorOptions kOptions = {.num_threads = 2,
                                      .max_batch_tokens = 256,
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
  while (!std::all_of(jobs.begin(), jobs.end(), AllFinished)) {
    std::this_thread::yield();
  }
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

}  // namespace
}  // namespace attention
