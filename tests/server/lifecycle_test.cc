// Cancelling, deadlines, draining, and the models at the start.
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "proto/grpc/health/v1/health.grpc.pb.h"
#include "tests/server/wire_tensors.h"
#include "tests/support/eventually.h"
#include "tests/support/in_process_server.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using grpc::StatusCode;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Keeps one thread busy for long enough that a test can act meanwhile, yet stops at a row block.
constexpr int64_t kLongRows = 24000;
v1::AttendRequest LongRequest(int64_t rows = kLongRows) {
  const Tensor input = SeededTensor(1, Dtype::kF32, {rows, 1, 64});
  return QkvRequest(input, input, input);
}
// Too much work to overtake a long request, so that it waits behind one.
v1::AttendRequest PatientRequest() {
  const Tensor input = SeededTensor(1, Dtype::kF32, {16000, 1, 8});
  return QkvRequest(input, input, input);
}
v1::AttendRequest ShortRequest() { return DemoRequest(SeededTensor(2, Dtype::kF32, {3, 512})); }

ServerOptions OneThread() { return {.threads = 1}; }

int64_t WaitingRequests(AttendClient& client) { return client.Statistics().waiting_requests(); }

// Streams LongRequest, and is past the first block when constructed.
class LongCall {
 public:
  explicit LongCall(const std::shared_ptr<grpc::Channel>& channel, int64_t rows = kLongRows)
      : client_(channel), reader_(client_.stub().AttendStream(&context_, LongRequest(rows))) {
    v1::AttendStreamResponse part;
    EXPECT_TRUE(reader_->Read(&part));
  }
  void Cancel() { context_.TryCancel(); }
  grpc::Status Finish() {
    for (v1::AttendStreamResponse part; reader_->Read(&part);) {
    }
    return reader_->Finish();
  }

 private:
  AttendClient client_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::AttendStreamResponse>> reader_;
};

TEST(LifecycleTest, RefusesARequestThatWouldWaitBeyondItsDeadline) {
  InProcessServer server(OneThread());
  const v1::AttendRequest request = PatientRequest();
  AttendClient client(server.NewChannel());
  // Nearly a trillion multiply-adds are more than any core does before the deadline.
  std::optional<LongCall> call(std::in_place, server.NewChannel(), 80000);
  std::optional<grpc::ClientContext> context;
  grpc::Status status;
  EXPECT_TRUE(Eventually([&] {
    context.emplace();
    context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(2));
    v1::AttendResponse response;
    status = client.stub().Attend(&*context, request, &response);
    if (status.ok()) {  // on a busy machine the long call may end before this one is sent
      call->Finish();
      call.emplace(server.NewChannel(), 80000);
      return false;
    }
    // Nor does a busy machine always refuse it before the deadline.
    return status.error_code() != StatusCode::DEADLINE_EXCEEDED;
  }));
  EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), StartsWith("the request would wait about "));
  const auto& trailers = context->GetServerTrailingMetadata();
  EXPECT_EQ(trailers.count("grpc-retry-pushback-ms"), 1);
  EXPECT_EQ(trailers.count("attend-estimated-wait-ms"), 1);
  call->Cancel();
  call->Finish();
}

TEST(LifecycleTest, RefusesWhatDoesNotFitTheQueue) {
  ServerOptions options = OneThread();
  options.max_queue_requests = 1;
  options.max_batch_delay_us = 60'000'000;  // the first request waits for others
  InProcessServer server(options);
  AttendClient client(server.NewChannel());
  grpc::ClientContext context;
  std::thread waiting([&] {
    v1::AttendResponse response;
    client.stub().Attend(&context, ShortRequest(), &response);
  });
  EXPECT_TRUE(Eventually([&] { return WaitingRequests(client) == 1; }));
  v1::AttendResponse response;
  const grpc::Status status = client.Attend(ShortRequest(), &response);
  EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(status.error_message(),
            "the queue is full: 1 waiting request; the maximum is 1 (--max-queue-requests)");
  context.TryCancel();
  waiting.join();
}

TEST(LifecycleTest, FinishesWhatIsUnderWayWhileItDrains) {
  InProcessServer server(OneThread());
  const auto channel = server.NewChannel();
  AttendClient client(channel);
  LongCall call(channel);
  std::thread shutdown([&] { server.server().Shutdown(absl::Minutes(30)); });
  grpc::Status refused;
  do {
    v1::AttendResponse response;
    refused = client.Attend(ShortRequest(), &response);
  } while (refused.ok());  // until the shutdown has begun, it passes the long one
  EXPECT_EQ(refused.error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(refused.error_message(), "the server is draining");
  EXPECT_TRUE(call.Finish().ok());
  shutdown.join();
}

TEST(LifecycleTest, LosesNoCallWhileItsConnectionsAgeInTheDrainDelay) {
  ServerOptions options = OneThread();
  options.connections.max_age = absl::Seconds(1);
  options.drain_delay = absl::Minutes(5);
  InProcessServer server(options);
  const auto channel = server.NewChannel();
  AttendClient client(channel);
  // Watches of health end, since they would hold the connection.
  grpc::ClientContext watch_context;
  const auto health = grpc::health::v1::Health::NewStub(channel);
  const auto watch = health->Watch(&watch_context, grpc::health::v1::HealthCheckRequest());
  grpc::health::v1::HealthCheckResponse state;
  ASSERT_TRUE(watch->Read(&state));
  std::thread drain([&] { server.server().Drain(absl::ZeroDuration()); });
  while (watch->Read(&state)) {
  }
  grpc::Status failed;
  do {
    v1::AttendResponse response;
    failed = client.Attend(ShortRequest(), &response);
  } while (failed.ok());
  EXPECT_EQ(failed.error_code(), StatusCode::UNAVAILABLE);
  EXPECT_THAT(failed.error_message(), HasSubstr("failed to connect to all addresses"))
      << "not a call that was sent";
  drain.join();
}

TEST(LifecycleTest, GivesUpWhatOutlivesTheGracePeriod) {
  grpc::Status status;
  EXPECT_TRUE(Eventually([&] {
    InProcessServer server(OneThread());
    LongCall call(server.NewChannel());
    server.server().Shutdown(absl::ZeroDuration());
    status = call.Finish();
    return !status.ok();  // on a busy machine the call may end before the shutdown begins
  }));
  EXPECT_EQ(status.error_code(), StatusCode::UNAVAILABLE);
}

TEST(LifecycleTest, ASlowReaderHoldsUpNobody) {
  InProcessServer server(OneThread());
  LongCall unread(server.NewChannel());
  AttendClient client(server.NewChannel());
  v1::AttendResponse response;
  EXPECT_TRUE(client.Attend(ShortRequest(), &response).ok());
  EXPECT_TRUE(unread.Finish().ok()) << "and its answer is still whole";
}

TEST(LifecycleTest, AServerThatIsDestroyedWaitsForNoConnection) {
  ServerOptions options = OneThread();
  options.drain_delay = absl::Hours(24);
  auto server = std::make_unique<InProcessServer>(options);
  const auto channel = server->NewChannel();
  v1::AttendResponse response;
  ASSERT_TRUE(AttendClient(channel).Attend(ShortRequest(), &response).ok());
  server.reset();  // the channel is still connected
}

TEST(LifecycleTest, RefusesAModelWithANameOfTheServersOwn) {
  for (const char* const name : {"attention", "*"}) {
    const SeededModelSpec spec = {.name = name, .d_model = 64, .num_heads = 2};
    EXPECT_THAT(Server::Start({.listen = {"127.0.0.1:0"}, .random_models = {spec}}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         absl::StrCat("--random-model ", name,
                                      ": expected another name, since this one is the server's "
                                      "own")));
  }
}

TEST(LifecycleTest, RefusesTwoModelsOfOneName) {
  const SeededModelSpec spec = {.name = "demo", .d_model = 64, .num_heads = 2};
  EXPECT_THAT(Server::Start({.listen = {"127.0.0.1:0"}, .random_models = {spec}}),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("demo")));
}

TEST(LifecycleTest, DescribesItsModels) {
  const SeededModelSpec spec = {.name = "wide",
                                .seed = 5,
                                .d_model = 96,
                                .num_heads = 6,
                                .num_kv_heads = 2,
                                .dtype = Dtype::kBf16,
                                .causal = true};
  InProcessServer server({.random_models = {spec}});
  AttendClient client(server.NewChannel());
  grpc::ClientContext context;
  v1::ListModelsResponse list;
  ASSERT_TRUE(client.stub().ListModels(&context, v1::ListModelsRequest(), &list).ok());
  ASSERT_EQ(list.models_size(), 2);
  EXPECT_EQ(list.models(0).name(), "demo");
  EXPECT_EQ(list.models(0).vocab_size(), 1000);
  EXPECT_EQ(list.models(0).max_positions(), 2048);
  EXPECT_EQ(list.models(0).limits().max_message_bytes(), 256 << 20);
  grpc::ClientContext get_context;
  v1::GetModelRequest get;
  get.set_model("wide");
  v1::Model model;
  ASSERT_TRUE(client.stub().GetModel(&get_context, get, &model).ok());
  EXPECT_EQ(model.SerializeAsString(), list.models(1).SerializeAsString());
  EXPECT_EQ(model.d_model(), 96);
  EXPECT_EQ(model.num_heads(), 6);
  EXPECT_EQ(model.num_kv_heads(), 2);
  EXPECT_EQ(model.head_dim(), 16);
  EXPECT_EQ(model.value_head_dim(), 16);
  EXPECT_EQ(model.dtype(), v1::BF16);
  EXPECT_TRUE(model.causal());
  EXPECT_EQ(model.seed(), 5);
}

}  // namespace
}  // namespace attention
