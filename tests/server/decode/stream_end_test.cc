// What becomes of a session when its stream ends: broken, idle, or because the server drains.

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/server/decode/decode_stream.h"
#include "tests/server/wire_tensors.h"
#include "tests/support/eventually.h"
#include "tests/support/in_process_server.h"

namespace attention {
namespace {

TEST(StreamEndTest, ACacheEndsWithItsStream) {
  InProcessServer server({.threads = 2});
  AttendClient client(server.NewChannel());
  DecodeStream stream(server.NewChannel());
  stream.Must(OpenModel("demo"));
  stream.Must(RowsStep(SeededTensor(1, Dtype::kF32, {100, kDemoWidth}), 0, 100));
  EXPECT_EQ(client.Statistics().sessions(), 1);
  EXPECT_GT(client.Statistics().cache_bytes(), 100 * 2 * kDemoWidth * 4);
  stream.Cancel();
  EXPECT_TRUE(Eventually([&] {
    const v1::ServerStatistics statistics = client.Statistics();
    return statistics.cache_bytes() == 0 && statistics.sessions() == 0;
  }));
}

TEST(StreamEndTest, ASessionOutlivesABrokenStreamWhenAskedTo) {
  InProcessServer server({.threads = 2});
  AttendClient client(server.NewChannel());
  const Tensor rows = SeededTensor(1, Dtype::kF32, {60, kDemoWidth});
  std::string token;
  std::string output;
  {
    DecodeStream stream(server.NewChannel());
    token = stream.Must(OpenToResume()).result.resume_token();
    EXPECT_EQ(token.size(), 32);
    output = stream.Must(RowsStep(rows, 0, 40)).rows;
    stream.Cancel();
  }
  ASSERT_TRUE(Eventually([&] { return client.Statistics().parked_sessions() == 1; }));
  DecodeStream stream(server.NewChannel());
  const DecodeAnswer resumed = stream.Must(Resuming(token));
  EXPECT_EQ(resumed.result.length(), 40);
  EXPECT_NE(resumed.result.resume_token(), token);
  output += stream.Must(RowsStep(rows, 40, 20)).rows;
  DecodeStream whole(server.NewChannel());
  whole.Must(OpenModel("demo"));
  EXPECT_TRUE(output == whole.Must(RowsStep(rows, 0, 60)).rows);
  EXPECT_EQ(whole.End().error_code(), grpc::OK);
  DecodeStream thief(server.NewChannel());
  EXPECT_EQ(thief.Do(Resuming(token)).code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(stream.End().ok()) << "an end that was meant leaves nothing";
  EXPECT_TRUE(Eventually([&] { return client.Statistics().sessions() == 0; }));
}

// As after a network that fails without a word: the server does not know that the stream is broken.
TEST(StreamEndTest, ASessionIsTakenOverFromAStreamThatHasNotEnded) {
  InProcessServer server({.threads = 2});
  AttendClient client(server.NewChannel());
  const Tensor rows = SeededTensor(1, Dtype::kF32, {60, kDemoWidth});
  std::vector<std::unique_ptr<DecodeStream>> streams;
  const auto stream = [&]() -> DecodeStream& {
    streams.push_back(std::make_unique<DecodeStream>(server.NewChannel()));
    return *streams.back();
  };
  const std::string first = stream().Must(OpenToResume()).result.resume_token();
  std::string output = streams[0]->Must(RowsStep(rows, 0, 40)).rows;
  const DecodeAnswer resumed = stream().Must(Resuming(first));
  EXPECT_EQ(resumed.result.length(), 40);
  EXPECT_EQ(streams[0]->End().error_code(), grpc::CANCELLED);
  // The answer to that was lost: the first token still counts, until the caller shows the new one.
  const std::string third = stream().Must(Resuming(first)).result.resume_token();
  EXPECT_NE(third, resumed.result.resume_token());
  output += streams[2]->Must(RowsStep(rows, 40, 20)).rows;
  for (const std::string& old : {first, resumed.result.resume_token()}) {
    EXPECT_EQ(stream().Do(Resuming(old)).code(), absl::StatusCode::kNotFound);
  }
  stream().Must(Resuming(third));
  DecodeStream whole(server.NewChannel());
  whole.Must(OpenModel("demo"));
  EXPECT_TRUE(output == whole.Must(RowsStep(rows, 0, 60)).rows);
  EXPECT_EQ(client.Statistics().sessions(), 2);
  EXPECT_TRUE(streams.back()->End().ok());
  EXPECT_TRUE(whole.End().ok());
  EXPECT_TRUE(Eventually([&] { return client.Statistics().sessions() == 0; }));
}

TEST(StreamEndTest, ASessionIsResumedWhateverItsBrokenStreamIsDoing) {
  InProcessServer server({.threads = 2});
  const Tensor rows = SeededTensor(1, Dtype::kF32, {60, kDemoWidth});
  auto stream = std::make_unique<DecodeStream>(server.NewChannel());
  std::string token = stream->Must(OpenToResume()).result.resume_token();
  for (int i = 0; i < 200; ++i) {
    if (i % 3 == 1) {
      stream->Send(RowsStep(rows, 0, 1 + i % 7));
    }
    stream->Cancel();
    auto next = std::make_unique<DecodeStream>(server.NewChannel());
    // Sent together: the step waits until the session is there.
    const uint64_t resuming = next->Send(Resuming(token));
    const uint64_t truncating = next->Send(TruncateTo(0));
    const std::optional<DecodeAnswer> opened = next->Read(), done = next->Read();
    ASSERT_TRUE(opened.has_value() && done.has_value()) << i;
    EXPECT_EQ(opened->id, resuming);
    EXPECT_EQ(opened->result.code(), 0) << i << ": " << opened->result.message();
    EXPECT_EQ(done->id, truncating);
    EXPECT_EQ(done->result.code(), 0) << i << ": " << done->result.message();
    token = opened->result.resume_token();
    stream = std::move(next);
  }
}

TEST(StreamEndTest, OnlyOneActionOpensASession) {
  InProcessServer server({.threads = 2});
  AttendClient client(server.NewChannel());
  DecodeStream holder(server.NewChannel());
  const std::string token = holder.Must(OpenToResume()).result.resume_token();
  {
    DecodeStream stream(server.NewChannel());
    stream.Send(Resuming(token));
    stream.Send(OpenToResume());
    EXPECT_EQ(stream.Read()->result.code(), 0);
    EXPECT_EQ(stream.Read()->result.code(), grpc::FAILED_PRECONDITION);
    EXPECT_TRUE(stream.End().ok());
  }
  EXPECT_TRUE(Eventually([&] { return client.Statistics().sessions() == 0; }));
}

TEST(StreamEndTest, OfManyWhoTakeASessionOverEachGetsAnAnswerAndOneKeepsIt) {
  InProcessServer server({.threads = 2});
  AttendClient client(server.NewChannel());
  DecodeStream holder(server.NewChannel());
  const std::string token = holder.Must(OpenToResume()).result.resume_token();
  std::vector<std::thread> takers;
  std::atomic<int> taken = 0, refused = 0;
  for (int i = 0; i < 8; ++i) {
    takers.emplace_back([&] {
      DecodeStream stream(server.NewChannel());
      const auto answer =
          stream.TrySend(Resuming(token)) ? stream.Read() : std::optional<DecodeAnswer>();
      ++(answer.has_value() && answer->result.code() == 0 ? taken : refused);
      stream.Cancel();
    });
  }
  for (std::thread& taker : takers) {
    taker.join();
  }
  EXPECT_GE(taken, 1);
  EXPECT_EQ(taken + refused, 8);
  EXPECT_TRUE(Eventually([&] { return client.Statistics().parked_sessions() == 1; }));
  EXPECT_EQ(client.Statistics().sessions(), 1);
}

TEST(StreamEndTest, ASessionWhoseResumeHadNoAnswerIsResumedByTheSameToken) {
  InProcessServer server({.threads = 2});
  AttendClient client(server.NewChannel());
  const auto is_parked = [&] { return client.Statistics().parked_sessions() == 1; };
  const auto resume = [&](const std::string& token, bool acts) {
    DecodeStream stream(server.NewChannel());
    const std::string next = stream.Must(Resuming(token)).result.resume_token();
    if (acts) {
      stream.Must(TruncateTo(0));
    }
    stream.Cancel();
    EXPECT_TRUE(Eventually(is_parked));
    return next;
  };
  std::string token;
  {
    DecodeStream stream(server.NewChannel());
    token = stream.Must(OpenToResume()).result.resume_token();
    stream.Cancel();
  }
  ASSERT_TRUE(Eventually(is_parked));
  resume(token, /*acts=*/false);
  const std::string next = resume(token, /*acts=*/false);  // whose answer was lost
  const std::string last = resume(next, /*acts=*/true);
  DecodeStream stream(server.NewChannel());
  for (const std::string& old : {token, next, std::string()}) {
    EXPECT_NE(stream.Do(Resuming(old)).code(), absl::StatusCode::kOk);
  }
  stream.Must(Resuming(last));
}

// The end of a stream's requests and its cancellation reach the server at about the same time, in
// either order.
TEST(StreamEndTest, EverySessionOutlivesItsBrokenStream) {
  constexpr int kStreams = 300;
  InProcessServer server({.threads = 2});
  AttendClient client(server.NewChannel());
  std::vector<std::unique_ptr<DecodeStream>> streams;
  for (int i = 0; i < kStreams; ++i) {
    streams.push_back(std::make_unique<DecodeStream>(server.NewChannel()));
    streams.back()->Must(OpenToResume());
  }
  for (const auto& stream : streams) {
    stream->Cancel();
  }
  EXPECT_TRUE(Eventually([&] { return client.Statistics().parked_sessions() == kStreams; }))
      << client.Statistics().parked_sessions() << " of " << kStreams << " sessions are parked";
}

TEST(StreamEndTest, ASessionThatNobodyResumesEnds) {
  InProcessServer server({.threads = 1});
  AttendClient client(server.NewChannel());
  {
    DecodeStream stream(server.NewChannel());
    v1::DecodeRequest open = OpenModel("demo");
    open.mutable_open()->set_resume_ttl_ms(20);
    stream.Must(open);
    stream.Must(RowsStep(SeededTensor(1, Dtype::kF32, {10, kDemoWidth}), 0, 10));
    stream.Cancel();
  }
  EXPECT_TRUE(Eventually([&] { return client.Statistics().cache_bytes() == 0; }));
  EXPECT_EQ(client.Statistics().parked_sessions(), 0);
}

TEST(StreamEndTest, AnIdleStreamIsEndedAndItsSessionWaitsToBeResumed) {
  absl::Duration timeout = absl::Milliseconds(50);
  EXPECT_TRUE(Eventually([&] {
    timeout *= 2;  // until this machine opens a session in that time
    InProcessServer server({.threads = 1, .session_idle_timeout = timeout});
    AttendClient client(server.NewChannel());
    std::string token;
    {
      DecodeStream stream(server.NewChannel());
      const auto opened = stream.TrySend(OpenToResume()) ? stream.Read() : std::nullopt;
      if (!opened.has_value()) {
        return false;
      }
      token = opened->result.resume_token();
      EXPECT_FALSE(stream.Read().has_value()) << "nothing but the end comes";
      const grpc::Status status = stream.End();
      EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
      EXPECT_EQ(status.error_message(),
                absl::StrCat("the stream had no request for ", absl::FormatDuration(timeout),
                             " (--session-idle-timeout)"));
    }
    EXPECT_TRUE(Eventually([&] { return client.Statistics().parked_sessions() == 1; }));
    DecodeStream stream(server.NewChannel());
    const auto resumed = stream.TrySend(Resuming(token)) ? stream.Read() : std::nullopt;
    EXPECT_EQ(resumed.value_or(DecodeAnswer()).result.code(), 0);
    return resumed.has_value();
  }));
}

TEST(StreamEndTest, AStreamThatOpensNoSessionIsEndedToo) {
  InProcessServer server({.threads = 1, .session_idle_timeout = absl::Milliseconds(100)});
  DecodeStream stream(server.NewChannel());
  EXPECT_FALSE(stream.Read().has_value()) << "nothing but the end comes";
  EXPECT_EQ(stream.End().error_code(), grpc::StatusCode::ABORTED);
}

TEST(StreamEndTest, AStreamThatWaitsForAnAnswerIsNotIdle) {
  const Tensor row = SeededTensor(1, Dtype::kF32, {1, kDemoWidth});
  absl::Duration timeout = absl::Milliseconds(50);
  EXPECT_TRUE(Eventually([&] {
    timeout *= 2;  // until this machine sends two requests in that time
    InProcessServer server({.threads = 1,
                            .max_batch_tokens = 2,
                            .max_batch_delay_us = 3'600'000'000,
                            .session_idle_timeout = timeout});
    AttendClient client(server.NewChannel());
    DecodeStream stream(server.NewChannel());
    if (!stream.TrySend(OpenModel("demo")) || !stream.TrySend(RowsStep(row, 0, 1)) ||
        !stream.Read().has_value()) {
      return false;
    }
    v1::ServerStatistics now;
    EXPECT_TRUE(Eventually([&] {
      now = client.Statistics();
      return now.waiting_requests() == 1 || now.sessions() == 0;
    }));
    if (now.waiting_requests() == 0) {
      return false;  // it ended before its step came
    }
    DecodeStream idle(server.NewChannel());
    EXPECT_FALSE(idle.Read().has_value()) << "one that came later was ended";
    client.Must(DemoRequest(row));  // fills the batch
    const std::optional<DecodeAnswer> answer = stream.Read();
    EXPECT_TRUE(answer.has_value());
    EXPECT_EQ(answer.value_or(DecodeAnswer()).result.code(), 0);
    return true;
  }));
}

TEST(StreamEndTest, AStreamWhoseClientTakesNoAnswerIsEnded) {
  // 8 MB of rows do not fit into the window of a client that does not read.
  const v1::DecodeRequest step =
      RowsStep(SeededTensor(1, Dtype::kF32, {4096, kDemoWidth}), 0, 4096);
  InProcessServer server({.threads = 2, .session_idle_timeout = absl::Seconds(3)});
  AttendClient client(server.NewChannel());
  DecodeStream stream(server.NewChannel());
  stream.Send(OpenModel("demo"));
  stream.Send(step);
  EXPECT_TRUE(Eventually([&] { return client.Statistics().sessions() == 1; }));
  EXPECT_TRUE(Eventually([&] { return client.Statistics().sessions() == 0; }));
  while (stream.Read().has_value()) {
  }
  EXPECT_EQ(stream.End().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(Eventually([&] { return client.Statistics().failed() == 1; }));
  EXPECT_EQ(client.Statistics().refused(), 0) << "there was room";
}

TEST(StreamEndTest, TheOpeningAnswerSaysWhenAnIdleStreamEnds) {
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

// Whether or not idle streams end by themselves.
TEST(StreamEndTest, AServerThatDrainsEndsSessions) {
  for (const absl::Duration idle_timeout : {absl::ZeroDuration(), absl::Minutes(2)}) {
    InProcessServer server({.threads = 1, .session_idle_timeout = idle_timeout});
    DecodeStream stream(server.NewChannel());
    stream.Must(OpenModel("demo"));
    stream.Must(RowsStep(SeededTensor(1, Dtype::kF32, {10, kDemoWidth}), 0, 10));
    server.server().Drain(absl::Minutes(5));
    EXPECT_FALSE(stream.Read().has_value()) << "nothing but the end comes";
    const grpc::Status status = stream.End();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_EQ(status.error_message(), "the server is draining");
  }
}

TEST(StreamEndTest, ASessionHasLeftWhenItsClientSeesTheEnd) {
  InProcessServer server({.threads = 1, .max_sessions = 1});
  const std::shared_ptr<grpc::Channel> channel = server.NewChannel();
  for (int i = 0; i < 200; ++i) {
    DecodeStream stream(channel);
    stream.Must(OpenModel("demo"));
    ASSERT_TRUE(stream.End().ok());
  }
}

}  // namespace
}  // namespace attention
