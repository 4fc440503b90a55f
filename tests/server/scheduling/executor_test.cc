#include "server/scheduling/executor.h"

#include <map>
#include <thread>

#include "gmock/gmock.h"
#include "tests/server/scheduling/fake_job.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

constexpr ExecutorOptions kOptions = {.num_threads = 2,
                                      .max_batch_tokens = 256,
                                      .queue = {.max_bytes = 1 << 30, .max_requests = 1 << 20}};

TEST(ExecutorTest, FinishesEveryJobOnceWithItsOwnAnswer) {
  constexpr int kProducers = 4;
  constexpr int kJobsEach = 50;
  const auto spec_of = [](int job) {
    return FakeJobSpec{.lengths = {1 + job * 7 % 90, 1 + job % 3},
                       .num_heads = job % 5 == 0 ? 3 : 2,
                       .seed = static_cast<uint64_t>(job % 10),
                       .wants_rows = job % 4 == 0};
  };
  std::vector<std::vector<std::shared_ptr<FakeJob>>> jobs(kProducers);
  {
    Executor executor(kOptions);
    std::vector<std::thread> producers;
    for (int p = 0; p < kProducers; ++p) {
      producers.emplace_back([&, p] {
        for (int i = 0; i < kJobsEach; ++i) {
          jobs[p].push_back(FakeJob::Make(spec_of(i)));
          EXPECT_THAT(executor.Submit(jobs[p].back()), IsOk());
        }
      });
    }
    for (std::thread& producer : producers) {
      producer.join();
    }
    const auto all_finished = [&] {
      return std::all_of(jobs.begin(), jobs.end(), [](const auto& own) {
        return std::all_of(own.begin(), own.end(),
                           [](const auto& job) { return job->is_finished(); });
      });
    };
    while (!all_finished()) {
      std::this_thread::yield();
    }
  }
  int together = 0;
  for (int i = 0; i < kJobsEach; ++i) {
    for (int p = 0; p < kProducers; ++p) {
      ASSERT_THAT(jobs[p][i]->status(), IsOk());
      EXPECT_EQ(jobs[p][i]->output(), jobs[0][i]->output()) << "the same request, in other company";
      together += jobs[p][i]->stats().batch_requests > 1 ? 1 : 0;
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
