// Requests of thousands of tokens: that they end when nobody waits for them any more, and let
// short ones pass.
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "tests/server/wire_tensors.h"
#include "tests/support/eventually.h"
#include "tests/support/in_process_server.h"

namespace attention {
namespace {

constexpr int64_t kTokens = 8192;

v1::AttendRequest LongLayer() {
  v1::AttendRequest request = DemoRequest(SeededTensor(1, Dtype::kF32, {kTokens, 512}));
  request.mutable_options()->set_causal(false);
  return request;
}

v1::AttendRequest LongAttention() {
  const Tensor input = SeededTensor(1, Dtype::kF32, {kTokens, 8, 64});
  return QkvRequest(input, input, input);
}

v1::AttendRequest Short(int64_t tokens) {
  return DemoRequest(SeededTensor(2, Dtype::kF32, {tokens, 512}));
}

// A call in a thread of its own.
class Running {
 public:
  Running(InProcessServer& server, const v1::AttendRequest& request)
      : client_(server.NewChannel()), thread_([this, request] {
          context_.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(5));
          v1::AttendResponse response;
          status_ = client_.stub().Attend(&context_, request, &response);
          is_over_ = true;
        }) {}
  ~Running() { Join(); }

  void Cancel() { context_.TryCancel(); }
  bool is_over() const { return is_over_; }
  grpc::Status Join() {
    if (thread_.joinable()) {
      thread_.join();
    }
    return status_;
  }

 private:
  AttendClient client_;
  grpc::ClientContext context_;
  grpc::Status status_;
  std::atomic<bool> is_over_ = false;
  std::thread thread_;
};

class LongRequestsTest : public ::testing::Test {
 protected:
  LongRequestsTest() { ::testing::internal::CaptureStderr(); }
  ~LongRequestsTest() override {
    if (server_ != nullptr) {
      EndedLog();
    }
  }

  v1::ServerStatistics Statistics() { return client_.Statistics(); }
  void WaitUntilRunning(int64_t requests) {
    EXPECT_TRUE(Eventually([&] { return Statistics().running_requests() == requests; }));
  }
  /// All lines of the log, once all calls are over.
  std::string EndedLog() {
    server_->server().Drain(absl::Minutes(5));
    server_.reset();
    return ::testing::internal::GetCapturedStderr();
  }

  std::unique_ptr<InProcessServer> server_ = std::make_unique<InProcessServer>(
      ServerOptions{.threads = 1, .logged_requests = LoggedRequests::kAll});
  AttendClient client_{server_->NewChannel()};
};

// BatchRunnerTest checks after how many slices.
TEST_F(LongRequestsTest, ACancelledOneIsGivenUpAmidItsWork) {
  for (const v1::AttendRequest& request : {LongLayer(), LongAttention()}) {
    std::string log;
    EXPECT_TRUE(Eventually([&] {  // again, where it was over before it was cancelled
      Running call(*server_, request);
      EXPECT_TRUE(
          Eventually([&] { return call.is_over() || Statistics().running_requests() == 1; }));
      call.Cancel();
      call.Join();
      WaitUntilRunning(0);
      log += ::testing::internal::GetCapturedStderr();
      ::testing::internal::CaptureStderr();
      return absl::StrContains(log, "the caller cancelled while the request was computed");
    })) << log;
  }
}

TEST_F(LongRequestsTest, ShortOnesPassThemAndAllAnswersAreTheSame) {
  v1::AttendResponse alone;
  ASSERT_TRUE(client_.Attend(Short(20), &alone).ok());
  const int64_t interleaved = Statistics().interleaved_batches();
  EXPECT_TRUE(Eventually([&] {  // again, where it was over before another one came
    Running call(*server_, LongLayer());
    EXPECT_TRUE(Eventually([&] { return call.is_over() || Statistics().running_requests() == 1; }));
    for (int i = 0; i < 100 && !call.is_over(); ++i) {
      v1::AttendResponse response;
      EXPECT_TRUE(client_.Attend(Short(20), &response).ok());
      EXPECT_TRUE(response.output().data() == alone.output().data());
    }
    EXPECT_TRUE(call.Join().ok());
    return Statistics().interleaved_batches() > interleaved;
  }));
}

TEST_F(LongRequestsTest, NoRowIsComputedThatNobodyAskedFor) {
  v1::AttendRequest ragged = DemoRequest(SeededTensor(1, Dtype::kF32, {3, 100, 512}), {100, 1, 37});
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      AttendClient client(server_->NewChannel());
      v1::AttendResponse response;
      EXPECT_TRUE(client.Attend(ragged, &response).ok());
    });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
  v1::ServerStatistics statistics;
  EXPECT_TRUE(Eventually([&] {
    statistics = Statistics();
    return statistics.succeeded() == 4 && statistics.running_requests() == 0;
  }));
  EXPECT_EQ(statistics.batch_tokens(), 4 * 138);
  EXPECT_EQ(statistics.padding_tokens(), 0);
}

}  // namespace
}  // namespace attention
