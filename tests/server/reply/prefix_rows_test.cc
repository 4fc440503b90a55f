// Jobs that take from the prefix cache and add to it.
#include "server/services/reply/prefix_rows.h"

#include <functional>
#include <memory>
#include <vector>

#include "core/models/load_model.h"
#include "gmock/gmock.h"
#include "server/services/plan/plan_prefix.h"
#include "server/services/plan/plan_request.h"
#include "server/services/reply/attend_job.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

constexpr int64_t kTokens = 20;

class NoSink final : public AttendSink {
 public:
  bool is_cancelled() const override { return false; }
  std::function<void()> GiveUp() override {
    return [] {};
  }
  void OnRows(const std::shared_ptr<const AttendReply>&, const RowRange&) override {}
  void Finish(const std::shared_ptr<const AttendReply>&, const absl::Status&,
              const BatchStats& stats) override {
    cached_tokens = stats.cached_tokens;
    on_finish();
  }

  int64_t cached_tokens = -1;
  std::function<void()> on_finish = [] {};
};

class PrefixRowsTest : public ::testing::Test {
 protected:
  PrefixRowsTest() {
    auto loaded =
        LoadModel({.name = "m", .folder = ATTEND_TEST_DATA "/models/llama"}, WeightsDtype::kF32);
    EXPECT_THAT(loaded.status(), IsOk());
    model_ = std::move(loaded->model);
  }

  /// A job over the same tokens each time, in `sequences` sequences that differ.
  std::unique_ptr<AttendJob> MakeJob(SessionTable& table, int32_t sequences = 1) {
    Received<v1::AttendRequest> request;
    v1::TokenIds& tokens = *request.message.mutable_token_ids();
    for (int32_t sequence = 0; sequence < sequences; ++sequence) {
      tokens.add_lengths(kTokens);
      for (int32_t i = 0; i < kTokens; ++i) {
        tokens.add_ids((sequence + i) % kTokens);
      }
    }
    auto plan = PlanAttendOn(model_, request, {.max_bytes = 1 << 20, .flag = ""});
    EXPECT_THAT(plan.status(), IsOk());
    EXPECT_THAT(PlanPrefixes(table, {.account = "a"}, {}, *plan), IsOk());
    return std::make_unique<AttendJob>(*std::move(plan), JobOrigin(), sink_);
  }

  /// Does what a batch does before it computes.
  static void Begin(AttendJob& job) {
    job.DropInputs();
    job.Prepare();
  }
  std::unique_ptr<AttendJob> MakeBegunJob(SessionTable& table) {
    auto job = MakeJob(table);
    EXPECT_TRUE(job->TakeMemory());
    Begin(*job);
    return job;
  }

  /// Computes a job alone, and ends it with the status.
  void Run(AttendJob& job, const absl::Status& status) {
    const JobSequence& described = job.description().sequences[0];
    const int64_t d_model = model_->info().d_model;
    const std::vector<float> rows(described.query_len * d_model, 1.0f);
    const EarlierRows earlier = job.Earlier(0);
    const int64_t all = earlier.earlier.rows + described.query_len;
    const ModelSequence sequence{.seq_len = described.query_len,
                                 .output = {job.Output(0), Dtype::kF32, all, d_model, d_model},
                                 .caches = *described.caches,
                                 .earlier = earlier.earlier,
                                 .hidden_states = earlier.hidden_states};
    ThreadPool pool(1);
    Workspace workspace(pool);
    EXPECT_THAT(model_->Forward({.hidden_states = {rows.data(), Dtype::kF32, described.query_len,
                                                   d_model, d_model},
                                 .sequences = {&sequence, 1}},
                                workspace),
                IsOk());
    job.Finish(status, {});
  }

  std::shared_ptr<const Model> model_;
  std::shared_ptr<NoSink> sink_ = std::make_shared<NoSink>();
};

TEST_F(PrefixRowsTest, OnlyWhatHasSucceededIsKept) {
  SessionTable table({.max_cache_bytes = 64 << 20, .max_prefix_bytes = 32 << 20});
  Run(*MakeBegunJob(table), absl::CancelledError());
  EXPECT_EQ(table.prefixes().statistics().prefixes, 0);
  EXPECT_EQ(table.statistics().cache_bytes, 0) << "nothing stays held";
  Run(*MakeBegunJob(table), absl::OkStatus());
  EXPECT_EQ(sink_->cached_tokens, 0);
  EXPECT_EQ(table.prefixes().statistics().prefixes, 1);
  const auto job = MakeBegunJob(table);
  EXPECT_EQ(job->description().tokens, 1);
  Run(*job, absl::DeadlineExceededError("late"));
  EXPECT_EQ(table.prefixes().statistics().prefixes, 1) << "and nothing is lost";
  Run(*MakeBegunJob(table), absl::OkStatus());
  EXPECT_EQ(sink_->cached_tokens, kTokens - 1);
}

TEST_F(PrefixRowsTest, WhenTheAnswerIsSentItsPrefixMayBeEvicted) {
  SessionTable probe({.max_cache_bytes = 64 << 20, .max_prefix_bytes = 32 << 20});
  Run(*MakeBegunJob(probe), absl::OkStatus());
  const int64_t pages = probe.statistics().cache_bytes;
  // An account may have the pages of one sequence.
  SessionTable table({.max_cache_bytes = pages * 9 / 8, .max_prefix_bytes = 32 << 20});
  int finished = 0;
  sink_->on_finish = [&] {
    ++finished;
    auto caches = model_->MakeCaches(KeyValueStorage::kF32, table.memory("a"),
                                     table.prefixes().page_tokens());
    ASSERT_THAT(caches, IsOk());
    EXPECT_THAT(table.ReserveFor("a", *caches, kTokens, MayEndParked::kNo), IsOk());
  };
  Run(*MakeBegunJob(table), absl::OkStatus());
  EXPECT_EQ(finished, 1);
  EXPECT_EQ(table.prefixes().statistics().evictions, 1);
}

TEST_F(PrefixRowsTest, WithoutMemoryRequestsAreComputedWithoutCaches) {
  SessionTable table({.max_cache_bytes = 1, .max_prefix_bytes = 32 << 20});
  const auto job = MakeBegunJob(table);
  EXPECT_TRUE(job->description().sequences[0].caches->empty());
  Run(*job, absl::OkStatus());
  EXPECT_EQ(table.prefixes().statistics().prefixes, 0);
}

// What the budget cannot hold beside the rest of the request would evict the rest.
TEST_F(PrefixRowsTest, ARequestAddsNoMoreSequencesThanTheBudgetHolds) {
  SessionTable probe({.max_cache_bytes = 64 << 20, .max_prefix_bytes = 32 << 20});
  const auto alone = MakeBegunJob(probe);
  const int64_t bytes = probe.statistics().cache_bytes;
  SessionTable table({.max_cache_bytes = 64 << 20, .max_prefix_bytes = 3 * bytes});
  const auto job = MakeJob(table, 10);
  EXPECT_TRUE(job->TakeMemory());
  Begin(*job);
  EXPECT_EQ(table.statistics().cache_bytes, 3 * bytes);
  int with_caches = 0;
  for (const JobSequence& sequence : job->description().sequences) {
    with_caches += sequence.caches->empty() ? 0 : 1;
  }
  EXPECT_EQ(with_caches, 3);
}

TEST_F(PrefixRowsTest, ARequestWithoutRoomForWhatItTakesTakesNothingAndEvictsNothing) {
  SessionTable probe({.max_cache_bytes = 64 << 20, .max_prefix_bytes = 32 << 20});
  Run(*MakeBegunJob(probe), absl::OkStatus());
  const int64_t pages = probe.statistics().cache_bytes;
  // An account may have the pages of one sequence, which the prefix has.
  SessionTable table({.max_cache_bytes = pages * 9 / 8, .max_prefix_bytes = 32 << 20});
  Run(*MakeBegunJob(table), absl::OkStatus());
  const auto job = MakeJob(table);
  EXPECT_EQ(job->description().tokens, 1);
  EXPECT_EQ(job->description().cache_bytes, pages);
  EXPECT_FALSE(job->TakeMemory()) << "what it takes stands in its own way";
  EXPECT_EQ(job->description().tokens, kTokens);
  EXPECT_EQ(job->description().cache_bytes, 0);
  EXPECT_EQ(table.prefixes().statistics().evictions, 0);
  EXPECT_TRUE(job->TakeMemory()) << "now it needs none";
  Begin(*job);
  EXPECT_EQ(table.prefixes().statistics().evictions, 1) << "and makes room for what it adds";
  EXPECT_EQ(job->description().sequences[0].caches->front().length(), 0);
  Run(*job, absl::OkStatus());
  EXPECT_EQ(sink_->cached_tokens, 0);
  EXPECT_EQ(table.prefixes().statistics().prefixes, 1);
}

TEST_F(PrefixRowsTest, WaitingRequestsTakeNoMemoryAndCountAsNothing) {
  SessionTable table({.max_cache_bytes = 64 << 20, .max_prefix_bytes = 32 << 20});
  Run(*MakeBegunJob(table), absl::OkStatus());
  const int64_t alone = table.statistics().cache_bytes;
  std::vector<std::unique_ptr<AttendJob>> waiting;
  for (int i = 0; i < 100; ++i) {
    waiting.push_back(MakeJob(table));
  }
  EXPECT_EQ(table.statistics().cache_bytes, alone);
  EXPECT_EQ(table.prefixes().statistics().hits, 0) << "a refused request is no hit";
  for (auto& job : waiting) {  // as if none could run with another
    ASSERT_TRUE(job->TakeMemory());
    Begin(*job);
    Run(*job, absl::OkStatus());
    job.reset();
  }
  EXPECT_EQ(table.prefixes().statistics().hits, 100);
  EXPECT_EQ(table.prefixes().statistics().evictions, 0);
}

TEST_F(PrefixRowsTest, TheQueueCountsTheHiddenStatesThatACacheTakesAndGives) {
  SessionTable without({.max_cache_bytes = 64 << 20});
  SessionTable with({.max_cache_bytes = 64 << 20, .max_prefix_bytes = 32 << 20});
  const int64_t alone = MakeJob(without)->description().size_bytes;
  const int64_t states = kTokens * model_->info().d_model * int64_t{sizeof(float)};
  const auto caches = static_cast<int64_t>(model_->info().layers.size() * sizeof(KvCache));
  EXPECT_EQ(MakeJob(with)->description().size_bytes,
            alone + states + caches + static_cast<int64_t>(sizeof(TakenPrefix)));
}

TEST_F(PrefixRowsTest, WithoutACacheJobsHaveNothingToDoWithIt) {
  SessionTable table({.max_cache_bytes = 64 << 20});
  const auto job = MakeJob(table);
  EXPECT_EQ(job->description().sequences[0].caches, nullptr);
  EXPECT_EQ(job->Earlier(0).hidden_states, nullptr);
  job->Finish(absl::OkStatus(), {});
  EXPECT_EQ(sink_->cached_tokens, 0);
}

}  // namespace
}  // namespace attention
