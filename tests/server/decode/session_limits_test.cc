// What sessions may take, what becomes of them when streams break, and what is refused.

#include "gmock/gmock.h"
#include "server/sessions/session.h"
#include "tests/server/decode/decode_stream.h"
#include "tests/server/wire_options.h"
#include "tests/server/wire_tensors.h"
#include "tests/support/eventually.h"
#include "tests/support/in_process_server.h"

namespace attention {
namespace {

using ::testing::HasSubstr;

v1::ServerStatistics StatisticsOf(InProcessServer& server) {
  AttendClient client(server.NewChannel());
  grpc::ClientContext context;
  v1::ServerStatistics statistics;
  EXPECT_TRUE(client.stub().GetStatistics(&context, {}, &statistics).ok());
  return statistics;
}

TEST(SessionLimitsTest, ACacheEndsWithItsStream) {
  InProcessServer server({.threads = 2});
  DecodeStream stream(server.NewChannel());
  stream.Must(OpenModel("demo"));
  stream.Must(RowsStep(SeededTensor(1, Dtype::kF32, {100, kDemoWidth}), 0, 100));
  EXPECT_EQ(StatisticsOf(server).sessions(), 1);
  EXPECT_GT(StatisticsOf(server).cache_bytes(), 100 * 2 * kDemoWidth * 4);
  stream.Cancel();
  EXPECT_TRUE(Eventually([&] {
    const v1::ServerStatistics statistics = StatisticsOf(server);
    return statistics.cache_bytes() == 0 && statistics.sessions() == 0;
  }));
}

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
  InProcessServer server({.threads = 1, .max_queue_bytes = 16 << 20});  // 4 MiB may wait
  const Tensor rows = SeededTensor(1, Dtype::kF32, {6000, kDemoWidth});
  DecodeStream stream(server.NewChannel());
  stream.Must(OpenModel("demo"));
  const uint64_t first = stream.Send(RowsStep(rows, 0, 4000));
  for (int i = 0; i < 4; ++i) {
    stream.Send(RowsStep(rows, 4000 + 400 * i, 400));  // 0.8 MB
  }
  std::vector<uint64_t> refused;
  for (int i = 0; i < 5; ++i) {
    const std::optional<DecodeAnswer> answer = stream.Read();
    ASSERT_TRUE(answer.has_value());
    if (answer->result.code() != 0) {
      EXPECT_EQ(answer->code(), absl::StatusCode::kResourceExhausted);
      EXPECT_THAT(answer->result.message(), HasSubstr("of 4194304, and the host 127.0.0.1 may"));
      EXPECT_GT(answer->result.retry_after_ms(), 0);
      refused.push_back(answer->id);
    }
  }
  EXPECT_THAT(refused, ::testing::ElementsAre(first + 3, first + 4)) << "one alone may have half";
  EXPECT_EQ(stream.Must(RowsStep(rows, 0, 1)).result.length(), 4801) << "and all is given back";
}

TEST(SessionLimitsTest, RefusesASessionTooMany) {
  InProcessServer server({.threads = 1, .max_sessions = 1});
  DecodeStream first(server.NewChannel());
  first.Must(OpenModel("demo"));
  DecodeStream second(server.NewChannel());
  const DecodeAnswer answer = second.Do(OpenModel("demo"));
  EXPECT_EQ(answer.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(answer.result.message(),
            "open: 1 sessions are open; the maximum is 1 (--max-sessions)");
  EXPECT_TRUE(first.End().ok());
  EXPECT_TRUE(Eventually([&] { return second.Do(OpenModel("demo")).result.code() == 0; }));
}

v1::DecodeRequest OpenToResume() {
  v1::DecodeRequest open = OpenModel("demo");
  open.mutable_open()->set_resume_ttl_ms(60'000);
  return open;
}

TEST(SessionLimitsTest, AParkedSessionMakesRoomForOneThatIsAskedFor) {
  InProcessServer server({.threads = 2, .max_cache_bytes = 4 << 20, .max_sessions = 2});
  const Tensor rows = SeededTensor(1, Dtype::kF32, {500, kDemoWidth});
  for (int i = 0; i < 2; ++i) {
    DecodeStream parked(server.NewChannel());
    parked.Must(OpenToResume());
    parked.Must(RowsStep(rows, 0, i == 0 ? 500 : 100));
    parked.Cancel();
    ASSERT_TRUE(Eventually([&] { return StatisticsOf(server).parked_sessions() == i + 1; }));
  }
  DecodeStream stream(server.NewChannel());
  stream.Must(OpenModel("demo"));
  EXPECT_EQ(StatisticsOf(server).parked_sessions(), 1) << "the place of the first";
  DecodeStream other(server.NewChannel());
  EXPECT_EQ(other.Do(OpenModel("demo")).code(), absl::StatusCode::kOk);
  EXPECT_EQ(StatisticsOf(server).parked_sessions(), 0);
  EXPECT_EQ(DecodeStream(server.NewChannel()).Do(OpenModel("demo")).code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(SessionLimitsTest, TheMemoryOfAParkedSessionIsForThoseThatCompute) {
  InProcessServer server({.threads = 2, .max_cache_bytes = 4 << 20});
  const Tensor rows = SeededTensor(1, Dtype::kF32, {700, kDemoWidth});
  DecodeStream parked(server.NewChannel());
  parked.Must(OpenToResume());
  parked.Must(RowsStep(rows, 0, 600));
  parked.Cancel();
  ASSERT_TRUE(Eventually([&] { return StatisticsOf(server).parked_sessions() == 1; }));
  DecodeStream stream(server.NewChannel());
  stream.Must(OpenModel("demo"));
  const Tensor many = SeededTensor(1, Dtype::kF32, {1900, kDemoWidth});
  EXPECT_EQ(stream.Do(RowsStep(many, 0, 1900)).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(StatisticsOf(server).parked_sessions(), 1) << "its room would not have been enough";
  stream.Must(RowsStep(rows, 0, 700));
  EXPECT_EQ(StatisticsOf(server).parked_sessions(), 0);
}

v1::DecodeRequest Resuming(const std::string& token) {
  v1::DecodeRequest request;
  request.mutable_open()->set_resume_token(token);
  return request;
}

TEST(SessionLimitsTest, ASessionOutlivesABrokenStreamWhenAskedTo) {
  InProcessServer server({.threads = 2});
  const Tensor rows = SeededTensor(1, Dtype::kF32, {60, kDemoWidth});
  std::string token;
  std::string output;
  {
    DecodeStream stream(server.NewChannel());
    v1::DecodeRequest open = OpenModel("demo");
    open.mutable_open()->set_resume_ttl_ms(60'000);
    token = stream.Must(open).result.resume_token();
    EXPECT_EQ(token.size(), 32);
    output = stream.Must(RowsStep(rows, 0, 40)).rows;
    stream.Cancel();
  }
  ASSERT_TRUE(Eventually([&] { return StatisticsOf(server).parked_sessions() == 1; }));
  DecodeStream stream(server.NewChannel());
  const DecodeAnswer resumed = stream.Must(Resuming(token));
  EXPECT_EQ(resumed.result.length(), 40);
  EXPECT_NE(resumed.result.resume_token(), token) << "a token resumes once";
  output += stream.Must(RowsStep(rows, 40, 20)).rows;
  DecodeStream whole(server.NewChannel());
  whole.Must(OpenModel("demo"));
  EXPECT_TRUE(output == whole.Must(RowsStep(rows, 0, 60)).rows);
  EXPECT_EQ(whole.End().error_code(), grpc::OK);
  DecodeStream thief(server.NewChannel());
  EXPECT_EQ(thief.Do(Resuming(token)).code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(stream.End().ok()) << "an end that was meant leaves nothing";
  EXPECT_TRUE(Eventually([&] { return StatisticsOf(server).sessions() == 0; }));
}

// The end of a stream's requests and its cancellation reach the server at about the same time, in
// either order.
TEST(SessionLimitsTest, EverySessionOutlivesItsBrokenStream) {
  constexpr int kStreams = 300;
  InProcessServer server({.threads = 2});
  std::vector<std::unique_ptr<DecodeStream>> streams;
  for (int i = 0; i < kStreams; ++i) {
    streams.push_back(std::make_unique<DecodeStream>(server.NewChannel()));
    streams.back()->Must(OpenToResume());
  }
  for (const auto& stream : streams) {
    stream->Cancel();
  }
  EXPECT_TRUE(Eventually([&] { return StatisticsOf(server).parked_sessions() == kStreams; }))
      << StatisticsOf(server).parked_sessions() << " of " << kStreams << " sessions are parked";
}

TEST(SessionLimitsTest, ASessionThatNobodyResumesEnds) {
  InProcessServer server({.threads = 1});
  {
    DecodeStream stream(server.NewChannel());
    v1::DecodeRequest open = OpenModel("demo");
    open.mutable_open()->set_resume_ttl_ms(20);
    stream.Must(open);
    stream.Must(RowsStep(SeededTensor(1, Dtype::kF32, {10, kDemoWidth}), 0, 10));
    stream.Cancel();
  }
  EXPECT_TRUE(Eventually([&] { return StatisticsOf(server).cache_bytes() == 0; }));
  EXPECT_EQ(StatisticsOf(server).parked_sessions(), 0);
}

TEST(SessionLimitsTest, AnIdleStreamIsEndedAndItsSessionWaitsToBeResumed) {
  InProcessServer server({.threads = 1, .session_idle_timeout = absl::Milliseconds(100)});
  std::string token;
  {
    DecodeStream stream(server.NewChannel());
    token = stream.Must(OpenToResume()).result.resume_token();
    EXPECT_FALSE(stream.Read().has_value()) << "nothing but the end comes";
    const grpc::Status status = stream.End();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
    EXPECT_EQ(status.error_message(),
              "the stream had no request for 100ms (--session-idle-timeout)");
  }
  ASSERT_TRUE(Eventually([&] { return StatisticsOf(server).parked_sessions() == 1; }));
  DecodeStream stream(server.NewChannel());
  stream.Must(Resuming(token));
}

TEST(SessionLimitsTest, AStreamThatOpensNoSessionIsEndedToo) {
  InProcessServer server({.threads = 1, .session_idle_timeout = absl::Milliseconds(100)});
  DecodeStream stream(server.NewChannel());
  EXPECT_FALSE(stream.Read().has_value()) << "nothing but the end comes";
  EXPECT_EQ(stream.End().error_code(), grpc::StatusCode::ABORTED);
}

TEST(SessionLimitsTest, AStreamThatWaitsForAnAnswerIsNotIdle) {
  InProcessServer server({.threads = 1,
                          .max_batch_delay_us = 400'000,
                          .session_idle_timeout = absl::Milliseconds(40)});
  DecodeStream stream(server.NewChannel());
  stream.Send(OpenModel("demo"));
  stream.Send(RowsStep(SeededTensor(1, Dtype::kF32, {1, kDemoWidth}), 0, 1));
  EXPECT_TRUE(stream.Read().has_value());
  const std::optional<DecodeAnswer> answer = stream.Read();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->result.code(), 0) << answer->result.message();
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
  EXPECT_THAT(answer.result.message(), HasSubstr("(an eighth of --max-cache-bytes)"));
  EXPECT_LT(forks, 40);
  stream.Must(Release(), 1);
  stream.Must(ForkTo(forks));
}

TEST(SessionLimitsTest, TheOptionsOfSessionsAreLimited) {
  constexpr int kHeads = 65536;  // 256 KiB of sinks each
  InProcessServer server({.threads = 1, .max_cache_bytes = 4 << 20});
  v1::DecodeRequest open = OpenHeads(kHeads, 1, 1);
  open.mutable_open()->mutable_options()->mutable_sinks()->Resize(kHeads, 1.0f);
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

TEST(SessionLimitsTest, TheOpeningAnswerSaysWhenAnIdleStreamEnds) {
  InProcessServer server({.threads = 1, .session_idle_timeout = absl::Minutes(2)});
  grpc::ClientContext context;
  const auto stub = v1::AttentionService::NewStub(server.NewChannel());
  const auto stream = stub->Decode(&context);
  ASSERT_TRUE(stream->Write(OpenModel("demo")));
  v1::DecodeResponse response;
  ASSERT_TRUE(stream->Read(&response));
  const auto& metadata = context.GetServerInitialMetadata();
  const auto found = metadata.find("attend-session-idle-timeout-ms");
  ASSERT_NE(found, metadata.end());
  EXPECT_EQ(found->second, "120000");
}

TEST(SessionLimitsTest, AServerThatDrainsEndsSessions) {
  InProcessServer server({.threads = 1});
  DecodeStream stream(server.NewChannel());
  stream.Must(OpenModel("demo"));
  server.server().Drain(absl::Minutes(5));
  stream.Send(RowsStep(SeededTensor(1, Dtype::kF32, {10, kDemoWidth}), 0, 10));
  const grpc::Status status = stream.End();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), "the server is draining");
}

struct Refused {
  v1::DecodeRequest request;
  absl::StatusCode code;
  std::string message;
};

void ExpectRefused(DecodeStream& stream, const std::vector<Refused>& cases) {
  for (const Refused& refused : cases) {
    const DecodeAnswer answer = stream.Do(refused.request);
    EXPECT_EQ(answer.code(), refused.code) << refused.message;
    EXPECT_EQ(answer.result.message(), refused.message);
  }
}

v1::DecodeRequest OpenWith(v1::DecodeRequest request, const std::string& options) {
  *request.mutable_open()->mutable_options() = Options(options);
  return request;
}

TEST(SessionLimitsTest, SaysWhatIsWrongWithAnOpening) {
  InProcessServer server({.threads = 1});
  DecodeStream stream(server.NewChannel());
  v1::DecodeRequest int32 = OpenModel("demo");
  int32.mutable_open()->set_cache_dtype(v1::INT32);
  v1::DecodeRequest both = OpenHeads(4, 4, 16);
  both.mutable_open()->set_model("demo");
  v1::DecodeRequest forever = OpenModel("demo");
  forever.mutable_open()->set_resume_ttl_ms(3'600'001);
  using enum absl::StatusCode;
  ExpectRefused(
      stream,
      {{RowsStep(SeededTensor(1, Dtype::kF32, {1, kDemoWidth}), 0, 1), kFailedPrecondition,
        "action: expected `open` as the first action of a stream, found another"},
       {OpenModel("nobody"), kNotFound, "model: expected one of \"demo\", found \"nobody\""},
       {OpenModel("demo", 1), kInvalidArgument,
        "layer: expected 0 to 0 of the 1 layer of model \"demo\", found 1"},
       {v1::DecodeRequest(OpenModel("")), kInvalidArgument,
        "open.heads: expected num_heads and head_dim of 1 or more without a model, found 0 and 0"},
       {OpenHeads(4, 3, 16), kInvalidArgument,
        "query_key_value.query.shape: expected a number of heads that is a positive multiple of "
        "the key's 3, found [0, 4, 16]"},
       {int32, kInvalidArgument, "open.cache_dtype: expected FP32, BF16 or INT8, found INT32"},
       {both, kInvalidArgument, "open.heads: expected none with a model, found some"},
       {forever, kInvalidArgument, "open.resume_ttl_ms: expected 0 to 3600000, found 3600001"},
       {OpenWith(OpenModel("demo"), "prefix: 3"), kInvalidArgument,
        "open.options.prefix: expected none in a session, whose later keys are not known yet, "
        "found one"},
       {OpenWith(OpenModel("demo"), "window: -3"), kInvalidArgument,
        "options.window: expected 0 or more, found -3"}});
  stream.Must(OpenModel("demo"));
  ExpectRefused(stream, {{OpenModel("demo"), kFailedPrecondition,
                          "open: expected a stream without a session, found one"}});
}

TEST(SessionLimitsTest, SaysWhatIsWrongWithAStep) {
  InProcessServer server({.threads = 1});
  DecodeStream stream(server.NewChannel());
  stream.Must(OpenModel("demo"));
  const Tensor rows = SeededTensor(1, Dtype::kF32, {4, kDemoWidth});
  v1::DecodeRequest with_lengths = RowsStep(rows, 0, 4);
  with_lengths.mutable_step()->mutable_hidden_states()->add_lengths(4);
  v1::DecodeRequest with_logits = RowsStep(rows, 0, 4);
  with_logits.mutable_step()->set_top_logits(3);
  v1::DecodeRequest pooled = RowsStep(rows, 0, 4);
  pooled.mutable_step()->set_model_output(v1::MEAN_POOLED);
  v1::DecodeRequest empty;
  empty.mutable_step();
  using enum absl::StatusCode;
  ExpectRefused(
      stream,
      {{v1::DecodeRequest(), kInvalidArgument,
        "action: expected open, step, fork, truncate or release, found none of them"},
       {empty, kInvalidArgument,
        "step.input: expected hidden_states, token_ids, text or query_key_value, found none of "
        "them"},
       {with_lengths, kInvalidArgument,
        "step.hidden_states.lengths: expected none in a session, found one"},
       {with_logits, kInvalidArgument,
        "step.top_logits: expected 0 in a session without logits (a layer, or a model without "
        "Model.has_logits), found 3"},
       {pooled, kInvalidArgument,
        "step.model_output: expected LAST_HIDDEN_STATES, LOGITS or LAST_LOGITS, found "
        "MEAN_POOLED"},
       {RowsStep(rows, 0, 0), kInvalidArgument, "step: expected at least one token, found none"},
       {RowsStep(SeededTensor(1, Dtype::kF32, {4, 100}), 0, 4), kInvalidArgument,
        "hidden_states.tensor.shape: expected rows of 512, found [4, 100]"},
       {RowsStep(SeededTensor(1, Dtype::kF32, {2, 2, kDemoWidth}), 0, 2), kInvalidArgument,
        "step: expected one sequence, found 2"},
       {ForkTo(0), kInvalidArgument, "fork.new_sequence: expected 1 to 65535, found 0"}});
  EXPECT_EQ(stream.Must(RowsStep(rows, 0, 4)).result.length(), 4) << "nothing was lost";
}

TEST(SessionLimitsTest, StepsWithoutAModelKeepToTheirHeads) {
  InProcessServer server({.threads = 1});
  DecodeStream stream(server.NewChannel());
  stream.Must(OpenHeads(4, 2, 16));
  v1::DecodeRequest step;
  v1::QueryKeyValue& input = *step.mutable_step()->mutable_query_key_value();
  ToWireTensor(SeededTensor(1, Dtype::kF32, {3, 4, 16}), input.mutable_query());
  ToWireTensor(SeededTensor(1, Dtype::kF32, {3, 4, 16}), input.mutable_key());
  ToWireTensor(SeededTensor(1, Dtype::kF32, {3, 4, 16}), input.mutable_value());
  using enum absl::StatusCode;
  ExpectRefused(stream,
                {{step, kInvalidArgument,
                  "step.query_key_value: expected 4 query heads and 2 key heads of 16, values of "
                  "16, FP32 as the session has, found 4 query heads and 4 key heads of 16, values "
                  "of 16, FP32"},
                 {RowsStep(SeededTensor(1, Dtype::kF32, {4, 64}), 0, 4), kInvalidArgument,
                  "step.input: expected query_key_value in a session without a model, found "
                  "another input"}});
}

TEST(SessionLimitsTest, OnlyPlacedRowsMayDifferInNumberFromTheirKeys) {
  InProcessServer server({.threads = 1});
  DecodeStream stream(server.NewChannel());
  stream.Must(OpenHeads(4, 2, 16));
  v1::DecodeRequest unplaced, two_places, empty;
  v1::QueryKeyValue& input = *unplaced.mutable_step()->mutable_query_key_value();
  ToWireTensor(SeededTensor(1, Dtype::kF32, {3, 4, 16}), input.mutable_query());
  ToWireTensor(SeededTensor(1, Dtype::kF32, {2, 2, 16}), input.mutable_key());
  *input.mutable_value() = input.key();
  two_places = unplaced;
  two_places.mutable_step()->mutable_query_key_value()->add_query_offsets(0);
  two_places.mutable_step()->mutable_query_key_value()->add_query_offsets(0);
  v1::QueryKeyValue& nothing = *empty.mutable_step()->mutable_query_key_value();
  ToWireTensor(Tensor(Dtype::kF32, {0, 4, 16}), nothing.mutable_query());
  ToWireTensor(Tensor(Dtype::kF32, {0, 2, 16}), nothing.mutable_key());
  *nothing.mutable_value() = nothing.key();
  nothing.add_query_offsets(0);
  using enum absl::StatusCode;
  ExpectRefused(stream,
                {{unplaced, kInvalidArgument,
                  "step.query_key_value.key.shape: expected as many rows as query, 3, "
                  "without query_offsets, found 2"},
                 {two_places, kInvalidArgument,
                  "query_key_value.query_offsets: expected no value or one for each of 1 "
                  "sequences, found 2"},
                 {empty, kInvalidArgument, "step: expected at least one token, found none"}});
}

}  // namespace
}  // namespace attention
