// Sessions of the library, and a load of them, against the real server.
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "client/lib/attention_client.h"
#include "client/lib/decode_stream.h"
#include "client/lib/shard_server.h"
#include "client/load/bench.h"
#include "client/load/bench_runner.h"
#include "client/load/report.h"
#include "core/tensor/seeded.h"
#include "gmock/gmock.h"
#include "tests/support/in_process_server.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;

constexpr int64_t kDemoWidth = 512;  // of demo

ServerOptions OneThread() {
  ServerOptions options;
  options.threads = 1;
  return options;
}

class DecodeServerTest : public ::testing::Test {
 protected:
  std::unique_ptr<DecodeStream> OpenDemo() {
    v1::OpenSession open;
    open.set_model("demo");
    auto stream = DecodeStream::Open(
        {.connection = {.server = server_.address()}, .timeout = absl::Minutes(2)}, open);
    EXPECT_THAT(stream, IsOk());
    return *std::move(stream);
  }

  /// Rows [first, first + count) of the sequence.
  Tensor Rows(int64_t first, int64_t count) const { return CopyRows(rows_, first, count); }

  void ExpectRowsOfOneShot(const Tensor& output, int64_t first) {
    AttendRequest request;
    request.model = "demo";
    request.input = HiddenStatesInput{&rows_};
    request.options.set_causal(true);
    const auto all = client_->Attend(request);
    ASSERT_THAT(all, IsOk());
    EXPECT_EQ(std::memcmp(output.data(), all->output.as<float>() + first * kDemoWidth,
                          output.size_bytes()),
              0);
  }

  LoadOptions Options() const {
    return {.connection = {.server = server_.address()},
            .concurrency = 3,
            .connections = 1,
            .warmup = absl::Milliseconds(30),
            .duration = absl::Minutes(5),
            .requests = 100,
            .timeout = absl::Minutes(2),
            .num_samples = 3};
  }

  absl::StatusOr<BenchReport> RunSessions(const DecodePlan& plan) {
    return RunSessions(plan, Options());
  }
  absl::StatusOr<BenchReport> RunSessions(const DecodePlan& plan, const LoadOptions& options) {
    const auto runner = MakeDecodeRunner(*client_, plan, options);
    return runner.ok() ? RunBench(**runner, {.options = options}, {}) : runner.status();
  }

  InProcessServer server_{OneThread()};
  const std::unique_ptr<AttentionClient> client_ = *AttentionClient::Connect(
      {.connection = {.server = server_.address()}, .timeout = absl::Minutes(2)});
  const Tensor rows_ = SeededTensor(1, Dtype::kF32, {9, kDemoWidth});
};

TEST_F(DecodeServerTest, StepsAreTheRowsOfTheWholeSequenceBitForBit) {
  const auto stream = OpenDemo();
  int64_t first = 0;
  for (const int64_t count : {5, 1, 2, 1}) {
    const Tensor rows = Rows(first, count);
    const auto step = stream->Step({.input = HiddenStatesInput{&rows}});
    ASSERT_THAT(step, IsOk());
    EXPECT_THAT(step->answer.output.shape(), ElementsAre(count, kDemoWidth));
    ExpectRowsOfOneShot(step->answer.output, first);
    first += count;
    EXPECT_EQ(step->session.length, first);
    EXPECT_GT(step->session.usage.cache_bytes(), 0);
  }
  EXPECT_THAT(stream->Close(), IsOk());
}

TEST_F(DecodeServerTest, AForkGoesItsOwnWayAndACutOneBegins) {
  const auto stream = OpenDemo();
  const Tensor prompt = Rows(0, 5), other = Rows(7, 2), next = Rows(5, 1);
  ASSERT_THAT(stream->Step({.input = HiddenStatesInput{&prompt}, .no_output = true}), IsOk());
  ASSERT_THAT(stream->Fork(0, 1), IsOk());
  ASSERT_THAT(stream->Step({.input = HiddenStatesInput{&other}}, 1), IsOk());
  const auto on_first = stream->Step({.input = HiddenStatesInput{&next}}, 0);
  ASSERT_THAT(on_first, IsOk());
  ExpectRowsOfOneShot(on_first->answer.output, 5);
  const auto cut = stream->Truncate(1, 5);
  ASSERT_THAT(cut, IsOk());
  EXPECT_EQ(cut->length, 5);
  const auto on_second = stream->Step({.input = HiddenStatesInput{&next}}, 1);
  ASSERT_THAT(on_second, IsOk());
  ExpectRowsOfOneShot(on_second->answer.output, 5);
  const auto released = stream->Release(1);
  ASSERT_THAT(released, IsOk());
  EXPECT_EQ(released->usage.sequences(), 1);
  EXPECT_THAT(stream->Close(), IsOk());
}

TEST_F(DecodeServerTest, WhatTheServerRefusesLeavesTheSession) {
  const auto stream = OpenDemo();
  const Tensor narrow = SeededTensor(1, Dtype::kF32, {1, 3}), next = Rows(0, 1);
  EXPECT_THAT(stream->Step({.input = HiddenStatesInput{&narrow}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("512")));
  const auto step = stream->Step({.input = HiddenStatesInput{&next}});
  ASSERT_THAT(step, IsOk());
  ExpectRowsOfOneShot(step->answer.output, 0);
  v1::OpenSession absent;
  absent.set_model("absent");
  EXPECT_THAT(DecodeStream::Open({.connection = {.server = server_.address()}}, absent),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("\"absent\"")));
}

TEST_F(DecodeServerTest, AMessageThatIsTooLargeLeavesTheSession) {
  ServerOptions options = OneThread();
  options.max_message_bytes = 10'000;
  const InProcessServer server(options);
  v1::OpenSession open;
  open.set_model("demo");
  const auto stream = DecodeStream::Open(
      {.connection = {.server = server.address()}, .timeout = absl::Minutes(2)}, open);
  ASSERT_THAT(stream, IsOk());
  EXPECT_EQ((*stream)->opened().max_message_bytes(), 10'000);
  const Tensor large = Rows(0, 5), first = Rows(0, 2), next = Rows(2, 1);
  ASSERT_THAT((*stream)->Step({.input = HiddenStatesInput{&first}}), IsOk());
  EXPECT_THAT((*stream)->Step({.input = HiddenStatesInput{&large}}),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("message of an action: expected at most 10000 bytes (the server's "
                                 "flag --max-message-bytes), found 102")));
  const auto step = (*stream)->Step({.input = HiddenStatesInput{&next}});
  ASSERT_THAT(step, IsOk());
  EXPECT_EQ(step->session.length, 3);
}

TEST_F(DecodeServerTest, ALoadOfSessionsIsCheckedAgainstTheReference) {
  const Tensor query = SeededTensor(1, Dtype::kF32, {1, 1, 4, 16}),
               key = SeededTensor(2, Dtype::kF32, {1, 1, 2, 16}),
               value = SeededTensor(3, Dtype::kF32, {1, 1, 2, 8});
  AttendRequest layer, tokens, bare;
  layer.model = tokens.model = "demo";
  layer.input = HiddenStatesInput{&rows_};
  tokens.input = TokenIdsInput{{3, 1, 4}, {}, {}};
  bare.input = QueryKeyValueInput{&query, &key, &value};
  bare.options.set_window(6);
  for (const AttendRequest& like : {layer, tokens, bare}) {
    const auto plan = DecodePlan::Make(like, {.prefill = 5, .steps = 4, .step_tokens = 2}, 1);
    ASSERT_THAT(plan, IsOk());
    const auto report = RunSessions(*plan);
    ASSERT_THAT(report, IsOk());
    EXPECT_TRUE(Succeeded(*report)) << ToText(*report);
    const BenchLevel& level = report->levels[0];
    ASSERT_TRUE(level.verification->reference.has_value());
    EXPECT_THAT(level.verification->sampled, Ge(1));
    EXPECT_GT(level.result.answers, 0);
    EXPECT_GT(level.result.phases.compute_ns.min(), 0);
  }
}

// A sample is an action that is sent: the end of a session takes none.
TEST_F(DecodeServerTest, AsManyAnswersAreSampledAsAreWanted) {
  AttendRequest like;
  like.model = "demo";
  like.input = HiddenStatesInput{&rows_};
  const auto plan = DecodePlan::Make(like, {.prefill = 5, .steps = 1, .step_tokens = 1}, 1);
  ASSERT_THAT(plan, IsOk());
  LoadOptions options = Options();
  options.concurrency = 1;
  options.warmup = absl::ZeroDuration();
  options.num_samples = 6;
  const auto report = RunSessions(*plan, options);
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->levels[0].verification->sampled, 6);
}

TEST_F(DecodeServerTest, RoundedKeysAndValuesAreComparedToTheirOwnKindOnly) {
  AttendRequest like;
  like.model = "demo";
  like.input = HiddenStatesInput{&rows_};
  const auto plan = DecodePlan::Make(
      like, {.prefill = 5, .steps = 4, .step_tokens = 1, .cache_dtype = v1::INT8}, 1);
  ASSERT_THAT(plan, IsOk());
  const auto report = RunSessions(*plan);
  ASSERT_THAT(report, IsOk());
  EXPECT_TRUE(Succeeded(*report)) << ToText(*report);
  const LoadVerification& verification = *report->levels[0].verification;
  EXPECT_FALSE(verification.reference.has_value());
  EXPECT_EQ(verification.identical, verification.sampled);
}

}  // namespace
}  // namespace attention
