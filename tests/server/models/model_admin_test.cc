// The calls that change which models are served, and readiness.
#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include "proto/grpc/health/v1/health.grpc.pb.h"
#include "tests/server/models/admin_client.h"
#include "tests/support/eventually.h"

namespace attention {
namespace {

using grpc::StatusCode;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(ModelAdminTest, LoadsUnloadsAndReloadsByRequest) {
  const FakeModelFolder folder;
  folder.Put("a/1", "1");
  folder.Put("bad", "none");
  const InProcessServer server(OptionsFor(folder.path()));
  AdminClient client(server);
  EXPECT_THAT(Lines(client.List()), ElementsAre("a:1 READY+", "bad:1 FAILED"));
  EXPECT_THAT(client.List()->states(1).error(), HasSubstr("expected a seed, found none"));
  EXPECT_EQ(client.List()->states(0).weights_dtype(), "fp32");
  EXPECT_EQ(client.List()->states(0).read_bytes(), 1000000);
  v1::AttendResponse response;
  EXPECT_TRUE(client.attend().Attend(RequestFor("a"), &response).ok());
  const auto error_of = [&](const char* model) {
    const grpc::Status status = client.attend().Attend(RequestFor(model), &response);
    EXPECT_EQ(status.error_code(), StatusCode::NOT_FOUND) << model;
    return status.error_message();
  };
  EXPECT_THAT(error_of("bad"),
              HasSubstr("found \"bad\", which failed to load or was unloaded (attend models"));
  EXPECT_THAT(error_of("nobody"), EndsWith("found \"nobody\""));

  EXPECT_THAT(Lines(client.Unload("a")), ElementsAre("a:1 UNLOADED"));
  EXPECT_THAT(error_of("a"), HasSubstr("found \"a\", which failed to load or was unloaded"));
  folder.Put("a/2", "2");
  EXPECT_THAT(Lines(client.Reload()), ElementsAre("a:1 UNLOADED", "a:2 UNLOADED", "bad:1 FAILED"));
  EXPECT_THAT(Lines(client.Load("a", 1)), ElementsAre("a:1 READY+", "a:2 UNLOADED"));
  EXPECT_THAT(Lines(client.Load("a")), ElementsAre("a:1 UNLOADED", "a:2 READY+"));
  EXPECT_TRUE(client.attend().Attend(RequestFor("a"), &response).ok());
}

TEST(ModelAdminTest, TheLogNamesWhoChangesWhat) {
  const FakeModelFolder folder;
  folder.Put("a/1", "1");
  const InProcessServer server(OptionsFor(folder.path()));
  AdminClient client(server);
  ::testing::internal::CaptureStderr();
  EXPECT_THAT(client.Unload("a", 1), IsOk());
  EXPECT_THAT(client.Load("none"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("")));
  EXPECT_THAT(client.List(), IsOk());
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, ContainsRegex("INFO an administrator's call rpc=UnloadModel "
                                 "request=\"?model: .*a.* version: 1.* peer=ipv4:127.0.0.1:"));
  EXPECT_THAT(log, HasSubstr("rpc=LoadModel")) << "it was tried";
  EXPECT_THAT(log, Not(HasSubstr("ListModelStates"))) << "it changes nothing";
}

TEST(ModelAdminTest, RefusesInWordsThatHelp) {
  const FakeModelFolder folder;
  folder.Put("bad", "none");
  const InProcessServer server(OptionsFor(folder.path()));
  AdminClient client(server);
  EXPECT_THAT(client.Load("a"),
              StatusIs(absl::StatusCode::kNotFound,
                       "model: expected one of " + folder.path() + ": bad, found \"a\""));
  EXPECT_THAT(client.Unload("bad", 3), StatusIs(absl::StatusCode::kNotFound,
                                                "version: expected one of model bad: 1, found 3"));
  EXPECT_THAT(client.Load("bad"), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr("/bad/weights: expected a seed")));
  EXPECT_THAT(client.Unload("demo"), StatusIs(absl::StatusCode::kFailedPrecondition,
                                              HasSubstr("\"demo\", which is the server's own")));
  EXPECT_THAT(client.Verify("demo"), StatusIs(absl::StatusCode::kFailedPrecondition,
                                              HasSubstr("\"demo\", which is the server's own")));
  EXPECT_THAT(client.Verify("bad"), StatusIs(absl::StatusCode::kNotFound,
                                             "model: expected one that serves, found \"bad\""));
}

TEST(ModelAdminTest, WithoutAFolderThereIsNothingToAdminister) {
  const InProcessServer server({.admin_listen = "127.0.0.1:0"});
  AdminClient client(server);
  const auto has_none = StatusIs(absl::StatusCode::kFailedPrecondition,
                                 "the server has no folder of models (--models)");
  EXPECT_THAT(client.List(), has_none);
  EXPECT_THAT(client.Load("demo"), has_none);
  EXPECT_THAT(client.Unload("demo"), has_none);
  EXPECT_THAT(client.Reload(), has_none);
  EXPECT_THAT(client.Verify("demo"), has_none);
}

TEST(ModelAdminTest, AFolderThatIsNotThereIsAnErrorAtTheStart) {
  ServerOptions options = OptionsFor("/nonexistent/models");
  options.listen = {"127.0.0.1:0"};
  EXPECT_THAT(Server::Start(options),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("--models: /nonexistent/models")));
}

/// A loader that waits until it may go on.
class HeldLoader {
 public:
  LoadFunction function() {
    return [this](const ModelSource& source, WeightsDtype dtype) {
      may_go_on_.wait();
      return LoadFakeModel(source, dtype);
    };
  }
  void Yield() { go_on_.set_value(); }

 private:
  std::promise<void> go_on_;
  const std::shared_future<void> may_go_on_ = go_on_.get_future().share();
};

TEST(ModelAdminTest, ServesWhileItLoadsAndIsReadyWhenAllIsLoaded) {
  const FakeModelFolder folder;
  folder.Put("a", "1");
  HeldLoader loader;
  ServerOptions options = OptionsFor(folder.path(), loader.function());
  options.listen = {"127.0.0.1:0"};
  const auto server = Server::Start(options);
  ASSERT_THAT(server, IsOk());
  const auto channel = grpc::CreateChannel((*server)->listening_addresses().front(),
                                           grpc::InsecureChannelCredentials());
  channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::minutes(5));
  EXPECT_FALSE((*server)->WaitUntilReady(absl::ZeroDuration()));
  AttendClient client(channel);
  v1::AttendResponse response;
  EXPECT_TRUE(client.Attend(DemoRequest(SeededTensor(1, Dtype::kF32, {3, 512})), &response).ok());
  const grpc::Status early = client.Attend(RequestFor("a"), &response);
  EXPECT_EQ(early.error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(early.error_message(), "model \"a\" is being loaded");
  const auto stub = grpc::health::v1::Health::NewStub(channel);
  const auto health = [&](const std::string& name) {
    grpc::ClientContext context;
    grpc::health::v1::HealthCheckRequest request;
    grpc::health::v1::HealthCheckResponse health_response;
    request.set_service(name);
    EXPECT_TRUE(stub->Check(&context, request, &health_response).ok()) << name;
    return health_response.status();
  };
  using grpc::health::v1::HealthCheckResponse;
  EXPECT_EQ(health("model/demo"), HealthCheckResponse::SERVING);
  EXPECT_EQ(health("model/a"), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(health("attention.v1.AttentionService"), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(health(""), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(health("model/*"), HealthCheckResponse::NOT_SERVING);
  loader.Yield();
  EXPECT_TRUE((*server)->WaitUntilReady(absl::Minutes(5)));
  for (const char* name : {"", "attention.v1.AttentionService", "model/a", "model/*"}) {
    EXPECT_EQ(health(name), HealthCheckResponse::SERVING) << name;
  }
  EXPECT_TRUE(client.Attend(RequestFor("a"), &response).ok());
}

TEST(ModelAdminTest, CallsThatWaitForTheLoaderKeepTheirDeadlineAndHoldNoThread) {
  const FakeModelFolder folder;
  HeldLoader loader;
  const InProcessServer server(OptionsFor(folder.path(), loader.function()));
  folder.Put("a", "1");
  AdminClient client(server);
  auto running = std::async(std::launch::async, [&] { return client.Load("a"); });
  EXPECT_TRUE(Eventually([&] { return !Lines(client.List()).empty(); }));
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i) {  // more than there are completion threads
    callers.emplace_back([&] {
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(500));
      v1::LoadModelRequest request;
      v1::ModelStates states;
      request.set_model("a");
      EXPECT_EQ(client.stub().LoadModel(&context, request, &states).error_code(),
                StatusCode::DEADLINE_EXCEEDED);
    });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
  EXPECT_THAT(Lines(client.List()), ElementsAre("a:1 LOADING"));
  loader.Yield();
  EXPECT_THAT(Lines(running.get()), ElementsAre("a:1 READY+"));
}

TEST(ModelAdminTest, DrainingRefusesWhatWaitsForTheLoader) {
  const FakeModelFolder folder;
  HeldLoader loader;
  InProcessServer server(OptionsFor(folder.path(), loader.function()));
  folder.Put("a", "1");
  AdminClient client(server);
  auto running = std::async(std::launch::async, [&] { return client.Load("a"); });
  EXPECT_TRUE(Eventually([&] { return !Lines(client.List()).empty(); })) << "that one has begun";
  // As many calls wait as may; that the others are refused shows that all of them have arrived.
  constexpr int kMayWait = 64;
  constexpr int kCalls = kMayWait + 2;
  std::atomic<int> num_busy = 0;
  std::vector<std::future<absl::Status>> calls;
  for (int i = 0; i < kCalls; ++i) {
    calls.push_back(std::async(std::launch::async, [&] {
      const absl::Status status = client.Unload("a").status();
      num_busy += absl::IsResourceExhausted(status) ? 1 : 0;
      return status;
    }));
  }
  EXPECT_TRUE(Eventually([&] { return num_busy == kCalls - kMayWait; }));
  auto shutdown =
      std::async(std::launch::async, [&] { server.server().Shutdown(absl::Seconds(60)); });
  int num_drained = 0;
  for (std::future<absl::Status>& call : calls) {
    num_drained += call.get() == absl::UnavailableError("the server is draining") ? 1 : 0;
  }
  EXPECT_EQ(num_drained, kMayWait);
  loader.Yield();
  EXPECT_THAT(Lines(running.get()), ElementsAre("a:1 READY+")) << "it was under way";
  shutdown.get();
}

}  // namespace
}  // namespace attention
