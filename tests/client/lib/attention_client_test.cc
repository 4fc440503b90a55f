// The client library against the real server.
#include "client/lib/attention_client.h"

#include <cstring>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "client/load/answer_check.h"
#include "core/tensor/seeded.h"
#include "gmock/gmock.h"
#include "tests/support/in_process_server.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ServerOptions SmallMessages() {
  ServerOptions options;
  options.threads = 1;
  options.max_message_bytes = 8 << 20;
  return options;
}

class AttentionClientTest : public ::testing::Test {
 protected:
  AttendRequest Rows(const Tensor& tensor) {
    AttendRequest request;
    request.model = "demo";
    request.input = HiddenStatesInput{&tensor, {}, nullptr, {}};
    return request;
  }

  InProcessServer server_{SmallMessages()};
  const std::unique_ptr<AttentionClient> client_ = *AttentionClient::Connect(
      {.connection = {.server = server_.address()}, .timeout = absl::Minutes(2)});
  const Tensor rows_ = SeededTensor(1, Dtype::kF32, {2, 5, 512});
};

TEST_F(AttentionClientTest, AnswersAgreeWithTheReference) {
  AttendRequest request = Rows(rows_);
  request.options.set_return_weights(true);
  const auto result = client_->Attend(request);
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(result->output.shape(), ElementsAre(2, 5, 512));
  ASSERT_EQ(result->weights.size(), 2u);
  const auto model = client_->GetModel("demo");
  ASSERT_THAT(model, IsOk());
  const auto check = CheckAnswer(&*model, request, *result);
  ASSERT_THAT(check, IsOk());
  EXPECT_TRUE(check->agreed()) << check->relative_l2;
}

TEST_F(AttentionClientTest, TellsWhereTheTimeWent) {
  const auto result = client_->Attend(Rows(rows_));
  ASSERT_THAT(result, IsOk());
  const v1::Summary& summary = result->summary;
  EXPECT_GT(summary.compute_ns(), 0);
  EXPECT_GE(summary.queue_ns(), 0);
  EXPECT_GE(summary.total_ns(), summary.queue_ns() + summary.compute_ns());
  EXPECT_GT(result->client_total, absl::Nanoseconds(summary.total_ns()));
  EXPECT_EQ(summary.batch_sequences(), 2);
  EXPECT_EQ(summary.batch_tokens(), 10);
}

TEST_F(AttentionClientTest, StreamedAnswersAreTheUnaryOnesBitForBit) {
  const Tensor rows = SeededTensor(2, Dtype::kF32, {3, 300, 512});
  AttendRequest request = Rows(rows);
  std::get<HiddenStatesInput>(request.input).lengths = {300, 1, 280};
  request.options.set_causal(true);
  request.options.set_return_weights(true);
  const auto unary = client_->Attend(request);
  ASSERT_THAT(unary, IsOk());
  int blocks = 0;
  StreamSink sink;
  sink.assemble = true;
  sink.on_rows = [&blocks](const RowBlock&) { return ++blocks > 0; };
  const auto streamed = client_->AttendStream(request, sink);
  ASSERT_THAT(streamed, IsOk());
  EXPECT_GT(blocks, 3);
  EXPECT_TRUE(SameBits(streamed->output, unary->output));
  ASSERT_EQ(streamed->weights.size(), unary->weights.size());
  for (size_t i = 0; i < unary->weights.size(); ++i) {
    EXPECT_TRUE(SameBits(streamed->weights[i], unary->weights[i])) << i;
  }
}

TEST_F(AttentionClientTest, AStreamWithoutRowsHasTheShapeOfTheAnswer) {
  const Tensor rows(Dtype::kF32, {2, 0, 512});
  const auto unary = client_->Attend(Rows(rows));
  ASSERT_THAT(unary, IsOk());
  const auto streamed = client_->AttendStream(Rows(rows), {.on_rows = {}, .assemble = true});
  ASSERT_THAT(streamed, IsOk());
  EXPECT_EQ(streamed->output.shape(), unary->output.shape());
}

TEST_F(AttentionClientTest, AssemblesNothingUnlessAsked) {
  int64_t rows = 0;
  StreamSink sink;
  sink.on_rows = [&rows](const RowBlock& block) {
    rows += block.rows.shape()[0];
    return true;
  };
  const auto result = client_->AttendStream(Rows(rows_), sink);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(rows, 10);
  EXPECT_EQ(result->output.num_elements(), 0);
  EXPECT_GT(result->summary.compute_ns(), 0);
}

TEST_F(AttentionClientTest, StopsAStreamWhenTheCallerHasEnough) {
  const Tensor rows = SeededTensor(2, Dtype::kF32, {1, 1500, 512});
  int blocks = 0;
  StreamSink sink;
  sink.on_rows = [&blocks](const RowBlock&) { return ++blocks < 2; };
  EXPECT_THAT(client_->AttendStream(Rows(rows), sink),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("by the caller")));
  EXPECT_EQ(blocks, 2);
  EXPECT_THAT(client_->Attend(Rows(rows_)), IsOk());
}

TEST_F(AttentionClientTest, ThreadsShareOneClient) {
  const auto expected = client_->Attend(Rows(rows_));
  ASSERT_THAT(expected, IsOk());
  std::vector<int> same(4, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        const auto result =
            i % 2 == 0 ? client_->Attend(Rows(rows_))
                       : client_->AttendStream(Rows(rows_), {.on_rows = {}, .assemble = true});
        same[t] += result.ok() && SameBits(result->output, expected->output) ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_THAT(same, ElementsAre(10, 10, 10, 10));
}

TEST_F(AttentionClientTest, PassesOnWhatTheServerSays) {
  const Tensor narrow = SeededTensor(1, Dtype::kF32, {2, 5, 511});
  const auto wrong =
      StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("512"), HasSubstr("511")));
  EXPECT_THAT(client_->Attend(Rows(narrow)), wrong);
  EXPECT_THAT(client_->AttendStream(Rows(narrow), {.on_rows = {}, .assemble = true}), wrong);
  EXPECT_THAT(client_->GetModel("absent"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("\"absent\"")));
}

TEST_F(AttentionClientTest, NamesTheFlagWhenAMessageIsTooLarge) {
  const Tensor large = SeededTensor(1, Dtype::kF32, {9, 512, 512});
  const auto too_large =
      StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("--max-message-bytes"));
  EXPECT_THAT(client_->Attend(Rows(large)), too_large);
  EXPECT_THAT(client_->AttendStream(Rows(large), {}), too_large);
}

TEST_F(AttentionClientTest, NamesTheFlagWhenMetadataIsTooLarge) {
  const auto client = AttentionClient::Connect(
      {.connection = {.server = server_.address(), .metadata = {{"x", std::string(100'000, 'y')}}},
       .timeout = absl::Minutes(2)});
  ASSERT_THAT(client, IsOk());
  EXPECT_THAT((*client)->ListModels(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("--max-header-bytes")));
}

TEST_F(AttentionClientTest, RefusesARequestWithoutItsTensor) {
  AttendRequest request;
  request.model = "demo";
  request.input = HiddenStatesInput{};
  EXPECT_THAT(client_->Attend(request),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("hidden_states.tensor: expected a tensor")));
}

TEST_F(AttentionClientTest, ListsTheModels) {
  const auto models = client_->ListModels();
  ASSERT_THAT(models, IsOk());
  ASSERT_EQ(models->size(), 1u);
  EXPECT_EQ(models->front().name(), "demo");
  EXPECT_EQ(models->front().limits().max_message_bytes(), 8 << 20);
}

TEST_F(AttentionClientTest, KnowsHealthByName) {
  EXPECT_THAT(client_->CheckHealth(""), IsOk());
  EXPECT_THAT(client_->CheckHealth("attention.v1.AttentionService"), IsOk());
  EXPECT_THAT(client_->CheckHealth("model/demo"), IsOk());
  EXPECT_THAT(client_->CheckHealth("model/absent"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("model/absent")));
}

TEST_F(AttentionClientTest, WaitsForWhatMayStillCome) {
  EXPECT_THAT(client_->WaitUntilReady("model/demo", absl::Minutes(2)), IsOk());
  EXPECT_THAT(client_->WaitUntilReady("model/absent", absl::Milliseconds(50)),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("not ready within 50ms"), HasSubstr("model/absent"))));
  for (const absl::Duration timeout : {absl::ZeroDuration(), absl::InfiniteDuration()}) {
    EXPECT_THAT(client_->WaitUntilReady("model/demo", timeout),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("timeout: expected")));
  }
}

}  // namespace
}  // namespace attention
