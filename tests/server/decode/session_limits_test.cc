// How many sessions there may be, and how much memory they and what waits for them may take.

#include "gmock/gmock.h"
#include "server/sessions/session.h"
#include "tests/server/decode/decode_stream.h"
#include "tests/server/wire_tensors.h"
#include "tests/support/eventually.h"
#include "tests/support/in_process_server.h"

namespace attention {
namespace {

using ::testing::HasSubstr;

TEST(SessionLimitsTest, RefusesWhatTheMemoryHasNoRoomForAndLosesNothing) {
  InProcessServer server({.threads = 2, .max_cache_bytes = 4 << 20});
  const Tensor rows = SeededTensor(1, Dtype::kF32, {2000, kDemoWidth});
  DecodeStream first(server.NewChannel());
  DecodeStream second(server.NewChannel());
  first.Must(OpenModel("demo"));
  second.Must(OpenModel("demo"));
  first.Must(RowsStep(rows, 0, 500));
  second.Must(RowsStep(rows, 0, 100));
  const DecodeAnswer refused = second.Do(RowsStep(rows, 100, 900));
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.result.message(), HasSubstr("(--max-cache-bytes)"));
  EXPECT_EQ(refused.result.length(), 100);
  EXPECT_EQ(refused.result.usage().max_cache_bytes(), 4 << 20);
  second.Must(RowsStep(rows, 100, 20));
  first.Must(Release());
  EXPECT_EQ(second.Must(RowsStep(rows, 120, 380)).result.length(), 500);
}

// The first step keeps the sequence busy; what is sent behind it waits, as far as there is room.
TEST(SessionLimitsTest, RefusesActionsThatWaitForMoreThanTheirShare) {
  InProcessServer server({.threads = 1,
                          .max_queue_bytes = 16 << 20,  // 4 MiB may wait
                          .max_batch_tokens = 4000,
                          .max_batch_delay_us = 60'000'000});  // the first step waits for others
  const Tensor rows = SeededTensor(1, Dtype::kF32, {6000, kDemoWidth});
  DecodeStream stream(server.NewChannel());
  stream.Must(OpenModel("demo"));
  const uint64_t first = stream.Send(RowsStep(rows, 0, 1));
  for (int i = 0; i < 4; ++i) {
    stream.Send(RowsStep(rows, 1 + 400 * i, 400));  // 0.8 MB: one action may have half of 4 MiB
  }
  for (const uint64_t id : {first + 3, first + 4}) {
    const std::optional<DecodeAnswer> answer = stream.Read();
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->id, id);
    EXPECT_EQ(answer->code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(answer->result.message(), HasSubstr("of 4194304, and the host 127.0.0.1 may"));
    EXPECT_GT(answer->result.retry_after_ms(), 0);
  }
}

TEST(SessionLimitsTest, WhatActionsHeldIsGivenBack) {
  InProcessServer server({.threads = 1, .max_queue_bytes = 16 << 20});
  const Tensor rows = SeededTensor(1, Dtype::kF32, {6000, kDemoWidth});
  DecodeStream stream(server.NewChannel());
  stream.Must(OpenModel("demo"));
  for (int i = 0; i < 10; ++i) {  // 8 MB in all
    EXPECT_EQ(stream.Must(RowsStep(rows, 400 * i, 400)).result.length(), 400 * (i + 1));
  }
}

// The weights of the prompt would take 72 MB.
TEST(SessionLimitsTest, AStepWithoutOutputNeedsNoRoomForOne) {
  InProcessServer server({.threads = 1, .max_queue_bytes = 16 << 20});
  const Tensor rows = SeededTensor(1, Dtype::kF32, {1501, kDemoWidth});
  DecodeStream stream(server.NewChannel());
  v1::DecodeRequest open = OpenModel("demo");
  *open.mutable_open()->mutable_options() =
      Options("return_weights: true return_log_sum_exp: true weights_top_k: 9");
  stream.Must(open);
  v1::DecodeRequest prompt = RowsStep(rows, 0, 1500);
  EXPECT_THAT(stream.Do(prompt).result.message(), HasSubstr("the reply would have"));
  prompt.mutable_step()->set_no_output(true);
  EXPECT_EQ(stream.Must(prompt).result.length(), 1500);
  const DecodeAnswer answer = stream.Must(RowsStep(rows, 1500, 1));
  EXPECT_EQ(answer.result.length(), 1501);
  EXPECT_GT(answer.largest_message, 1501 * sizeof(float)) << "it has weights";
}

TEST(SessionLimitsTest, RefusesASessionTooMany) {
  InProcessServer server({.threads = 1, .max_sessions = 1});
  DecodeStream first(server.NewChannel());
  first.Must(OpenModel("demo"));
  DecodeStream second(server.NewChannel());
  const DecodeAnswer answer = second.Do(OpenModel("demo"));
  EXPECT_EQ(answer.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(answer.result.message(), "open: 1 open session; the maximum is 1 (--max-sessions)");
  EXPECT_TRUE(first.End().ok());
  EXPECT_TRUE(Eventually([&] { return second.Do(OpenModel("demo")).result.code() == 0; }));
}

TEST(SessionLimitsTest, AParkedSessionMakesRoomForOneThatIsAskedFor) {
  InProcessServer server({.threads = 2, .max_cache_bytes = 4 << 20, .max_sessions = 2});
  AttendClient client(server.NewChannel());
  const Tensor rows = SeededTensor(1, Dtype::kF32, {500, kDemoWidth});
  for (int i = 0; i < 2; ++i) {
    DecodeStream parked(server.NewChannel());
    parked.Must(OpenToResume());
    parked.Must(RowsStep(rows, 0, i == 0 ? 500 : 100));
    parked.Cancel();
    ASSERT_TRUE(Eventually([&] { return client.Statistics().parked_sessions() == i + 1; }));
  }
  DecodeStream stream(server.NewChannel());
  stream.Must(OpenModel("demo"));
  EXPECT_EQ(client.Statistics().parked_sessions(), 1) << "the place of the first";
  DecodeStream other(server.NewChannel());
  EXPECT_EQ(other.Do(OpenModel("demo")).code(), absl::StatusCode::kOk);
  EXPECT_EQ(client.Statistics().parked_sessions(), 0);
  EXPECT_EQ(DecodeStream(server.NewChannel()).Do(OpenModel("demo")).code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(SessionLimitsTest, TheMemoryOfAParkedSessionIsForThoseThatCompute) {
  InProcessServer server({.threads = 2, .max_cache_bytes = 4 << 20});
  AttendClient client(server.NewChannel());
  const Tensor rows = SeededTensor(1, Dtype::kF32, {700, kDemoWidth});
  DecodeStream parked(server.NewChannel());
  parked.Must(OpenToResume());
  parked.Must(RowsStep(rows, 0, 600));
  parked.Cancel();
  ASSERT_TRUE(Eventually([&] {  // the batch of the step, which has ended, holds its memory
    const v1::ServerStatistics now = client.Statistics();
    return now.parked_sessions() == 1 && now.running_requests() == 0;
  }));
  DecodeStream stream(server.NewChannel());
  stream.Must(OpenModel("demo"));
  const Tensor many = SeededTensor(1, Dtype::kF32, {1900, kDemoWidth});
  EXPECT_EQ(stream.Do(RowsStep(many, 0, 1900)).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(client.Statistics().parked_sessions(), 1) << "its room would not have been enough";
  stream.Must(RowsStep(rows, 0, 700));
  EXPECT_EQ(client.Statistics().parked_sessions(), 0);
}

// Of pages that forks share only the tables take memory: here 48 KiB each of half a mebibyte.
TEST(SessionLimitsTest, TheTablesOfForksAreLimited) {
  constexpr int64_t kHeads = 1024;
  InProcessServer server({.threads = 1, .max_cache_bytes = 16 << 20});
  DecodeStream stream(server.NewChannel());
  stream.Must(OpenHeads(kHeads, kHeads, 1));
  const Tensor row = SeededTensor(1, Dtype::kF32, {1, kHeads, 1});
  v1::DecodeRequest step;
  *step.mutable_step()->mutable_query_key_value() = QkvRequest(row, row, row).query_key_value();
  stream.Must(step);
  int64_t forks = 0;
  DecodeAnswer answer;
  while (forks < Session::kMaxSequences - 1 && answer.result.code() == 0) {
    answer = stream.Do(ForkTo(++forks));
  }
  EXPECT_EQ(answer.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(answer.result.message(),
              HasSubstr("(an eighth of --max-cache-bytes, at least 1 MiB)"));
  EXPECT_LT(forks, 40);
  stream.Must(Release(), 1);
  stream.Must(ForkTo(forks));
}

TEST(SessionLimitsTest, TheOptionsOfSessionsAreLimited) {
  constexpr int kHeads = 65536;  // 256 KiB of sinks each
  InProcessServer server({.threads = 1, .max_cache_bytes = 4 << 20});
  v1::DecodeRequest open = OpenHeads(kHeads, 1, 1);
  const std::vector<float> sinks(kHeads, 1.0f);
  open.mutable_open()->mutable_options()->mutable_sinks()->Add(sinks.begin(), sinks.end());
  std::vector<std::unique_ptr<DecodeStream>> streams;
  DecodeAnswer answer;
  while (streams.size() < 10 && answer.result.code() == 0) {
    streams.push_back(std::make_unique<DecodeStream>(server.NewChannel()));
    answer = streams.back()->Do(open);
  }
  EXPECT_EQ(answer.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(answer.result.message(), HasSubstr("tables and options of sessions"));
  EXPECT_LT(streams.size(), 4U);
}

}  // namespace
}  // namespace attention
