// A folder of models behind the real server: readiness, the calls that change it, reloading under
// load.
#include <atomic>
#include <filesystem>
#include <future>
#include <map>
#include <thread>

#include "gmock/gmock.h"
#include "proto/codec/status.h"
#include "proto/grpc/health/v1/health.grpc.pb.h"
#include "tests/server/wire_tensors.h"
#include "tests/support/in_process_server.h"
#include "tests/support/matchers.h"
#include "tests/support/model_folder.h"

namespace attention {
namespace {

using grpc::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ServerOptions OptionsFor(const std::string& folder, LoadFunction load = LoadFakeModel) {
  ServerOptions options;
  options.threads = 2;
  options.models.folder.path = folder;
  options.models.load = std::move(load);
  return options;
}

v1::AttendRequest RequestFor(const std::string& model) {
  v1::AttendRequest request = DemoRequest(SeededTensor(7, Dtype::kF32, {2, 5, 32}));
  request.set_model(model);
  return request;
}

class AdminClient {
 public:
  explicit AdminClient(const InProcessServer& server) : client_(server.NewChannel()) {}

  AttendClient& attend() { return client_; }
  v1::AttentionService::Stub& stub() { return client_.stub(); }

  absl::StatusOr<v1::ModelStates> Load(const std::string& model, int64_t version = 0) {
    v1::LoadModelRequest request;
    return Named(&v1::AttentionService::Stub::LoadModel, request, model, version);
  }
  absl::StatusOr<v1::ModelStates> Unload(const std::string& model, int64_t version = 0) {
    v1::UnloadModelRequest request;
    return Named(&v1::AttentionService::Stub::UnloadModel, request, model, version);
  }
  absl::StatusOr<v1::VerifyModelResponse> Verify(const std::string& model, int64_t version = 0) {
    v1::VerifyModelRequest request;
    return Named(&v1::AttentionService::Stub::VerifyModel, request, model, version);
  }
  absl::StatusOr<v1::ModelStates> Reload() {
    return Call(&v1::AttentionService::Stub::ReloadModels, v1::ReloadModelsRequest());
  }
  absl::StatusOr<v1::ModelStates> List() {
    return Call(&v1::AttentionService::Stub::ListModelStates, v1::ListModelStatesRequest());
  }

 private:
  template <typename Request, typename Reply>
  using Method = grpc::Status (v1::AttentionService::Stub::*)(grpc::ClientContext*, const Request&,
                                                              Reply*);
  template <typename Request, typename Reply>
  absl::StatusOr<Reply> Named(Method<Request, Reply> method, Request& request,
                              const std::string& model, int64_t version) {
    request.set_model(model);
    if (version > 0) {
      request.set_version(version);
    }
    return Call(method, request);
  }
  template <typename Request, typename Reply>
  absl::StatusOr<Reply> Call(Method<Request, Reply> method, const Request& request) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    Reply reply;
    const grpc::Status status = (client_.stub().*method)(&context, request, &reply);
    if (!status.ok()) {
      return ToAbslStatus(status);
    }
    return reply;
  }

  AttendClient client_;
};

/// "NAME:VERSION PHASE", with a + if it serves.
std::vector<std::string> Lines(const absl::StatusOr<v1::ModelStates>& states) {
  std::vector<std::string> lines;
  EXPECT_THAT(states, IsOk());
  const v1::ModelStates all = states.value_or(v1::ModelStates());
  for (const v1::ModelState& state : all.states()) {
    lines.push_back(absl::StrCat(state.name(), ":", state.version(), " ",
                                 v1::ModelState::Phase_Name(state.phase()),
                                 state.serving() ? "+" : ""));
  }
  return lines;
}

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

  EXPECT_THAT(Lines(client.Unload("a")), ElementsAre("a:1 UNLOADED"));
  EXPECT_EQ(client.attend().Attend(RequestFor("a"), &response).error_code(), StatusCode::NOT_FOUND);
  folder.Put("a/2", "2");
  EXPECT_THAT(Lines(client.Reload()), ElementsAre("a:1 UNLOADED", "a:2 UNLOADED", "bad:1 FAILED"));
  EXPECT_THAT(Lines(client.Load("a", 1)), ElementsAre("a:1 READY+", "a:2 UNLOADED"));
  EXPECT_THAT(Lines(client.Load("a")), ElementsAre("a:1 UNLOADED", "a:2 READY+"));
  EXPECT_TRUE(client.attend().Attend(RequestFor("a"), &response).ok());
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
  const InProcessServer server;
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
  void GoOn() { go_on_.set_value(); }

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
  EXPECT_FALSE((*server)->WaitUntilReady(absl::ZeroDuration()));
  AttendClient client(channel);
  v1::AttendResponse response;
  EXPECT_TRUE(client.Attend(DemoRequest(SeededTensor(1, Dtype::kF32, {3, 512})), &response).ok());
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
  loader.GoOn();
  EXPECT_TRUE((*server)->WaitUntilReady(absl::Seconds(30)));
  for (const char* name : {"", "attention.v1.AttentionService", "model/a"}) {
    EXPECT_EQ(health(name), HealthCheckResponse::SERVING) << name;
  }
}

TEST(ModelAdminTest, CallsThatWaitForTheLoaderKeepTheirDeadlineAndHoldNoThread) {
  const FakeModelFolder folder;
  HeldLoader loader;
  const InProcessServer server(OptionsFor(folder.path(), loader.function()));
  folder.Put("a", "1");
  AdminClient client(server);
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i) {  // more than there are completion threads
    callers.emplace_back([&] {
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(50));
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
  loader.GoOn();
  EXPECT_THAT(Lines(client.Load("a")), ElementsAre("a:1 READY+"));
}

TEST(ModelAdminTest, DrainingRefusesWhatWaitsForTheLoader) {
  const FakeModelFolder folder;
  HeldLoader loader;
  InProcessServer server(OptionsFor(folder.path(), loader.function()));
  folder.Put("a", "1");
  AdminClient client(server);
  auto running = std::async(std::launch::async, [&] { return client.Load("a"); });
  while (Lines(client.List()).empty()) {  // until that one has begun
  }
  auto waiting = std::async(std::launch::async, [&] { return client.Unload("a"); });
  auto shutdown =
      std::async(std::launch::async, [&] { server.server().Shutdown(absl::Seconds(60)); });
  EXPECT_THAT(waiting.get(), StatusIs(absl::StatusCode::kUnavailable, "the server is draining"));
  loader.GoOn();
  EXPECT_THAT(Lines(running.get()), ElementsAre("a:1 READY+")) << "it was under way";
  shutdown.get();
}

/// The answers of seeds 1 to `count`, by their bytes.
std::map<std::string, int> AnswersBySeed(int count) {
  ServerOptions options;
  for (int seed = 1; seed <= count; ++seed) {
    options.random_models.push_back({.name = absl::StrCat("s", seed),
                                     .seed = static_cast<uint64_t>(seed),
                                     .d_model = 32,
                                     .num_heads = 2});
  }
  const InProcessServer server(options);
  AttendClient client(server.NewChannel());
  std::map<std::string, int> answers;
  for (int seed = 1; seed <= count; ++seed) {
    v1::AttendResponse response;
    EXPECT_TRUE(client.Attend(RequestFor(absl::StrCat("s", seed)), &response).ok());
    answers[response.output().data()] = seed;
  }
  return answers;
}

TEST(HotReloadTest, EveryAnswerUnderLoadIsWhollyOneVersionsAndNoneFails) {
  constexpr int kVersions = 12;
  const std::map<std::string, int> seeds = AnswersBySeed(kVersions);
  ASSERT_EQ(seeds.size(), static_cast<size_t>(kVersions));
  const FakeModelFolder folder;
  folder.Put("a/1", "1");
  const InProcessServer server(OptionsFor(folder.path()));

  std::atomic<bool> is_over = false;
  std::atomic<int> last_seen = 0;
  std::vector<std::thread> callers;
  for (int c = 0; c < 3; ++c) {
    callers.emplace_back([&] {
      AttendClient client(server.NewChannel());
      int seed = 1;
      while (!is_over && !::testing::Test::HasFailure()) {
        v1::AttendResponse response;
        const grpc::Status status = client.Attend(RequestFor("a"), &response);
        ASSERT_TRUE(status.ok()) << status.error_message();
        const auto found = seeds.find(response.output().data());
        ASSERT_NE(found, seeds.end()) << "a mixture of versions";
        ASSERT_GE(found->second, seed) << "an older version after a newer one";
        seed = found->second;
        last_seen = seed;
      }
    });
  }
  AdminClient admin(server);
  for (int seed = 2; seed <= kVersions; ++seed) {
    // New versions, and new files of the same version, in turn.
    folder.Put(absl::StrCat("a/", seed / 2 + 1), absl::StrCat(seed));
    EXPECT_THAT(admin.Reload(), IsOk());
    while (last_seen < seed && !::testing::Test::HasFailure()) {
      std::this_thread::yield();
    }
  }
  folder.Put("a/100", "broken");
  EXPECT_THAT(admin.Load("a"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("broken")));
  v1::AttendResponse response;
  EXPECT_TRUE(admin.attend().Attend(RequestFor("a"), &response).ok());
  EXPECT_EQ(seeds.at(response.output().data()), kVersions) << "the old one goes on";
  is_over = true;
  for (std::thread& caller : callers) {
    caller.join();
  }
}

/// DIR/NAME with a golden checkpoint of that name.
void PutGolden(const FakeModelFolder& folder, const std::string& name) {
  namespace fs = std::filesystem;
  fs::copy(fs::path(ATTEND_TEST_DATA) / "models" / name, fs::path(folder.path()) / name);
}

TEST(CheckpointTest, ServesWhatIsSoundAndTellsWhatIsNot) {
  const FakeModelFolder folder;
  PutGolden(folder, "gpt2");
  PutGolden(folder, "llama");
  std::filesystem::resize_file(folder.path() + "/llama/model.safetensors", 1000);
  const InProcessServer server(OptionsFor(folder.path(), LoadModel));
  AdminClient client(server);
  EXPECT_THAT(Lines(client.List()), ElementsAre("gpt2:1 READY+", "llama:1 FAILED"));
  EXPECT_EQ(client.List()->states(0).model_type(), "gpt2");
  EXPECT_GT(client.List()->states(0).weights_bytes(), 0);
  EXPECT_THAT(client.List()->states(1).error(), HasSubstr("/llama/model.safetensors"));
}

TEST(CheckpointTest, VerifyTellsTheCostOfEachLayerAndOfTheWhole) {
  const FakeModelFolder folder;
  PutGolden(folder, "gpt2");
  for (const auto& [dtype, most] :
       {std::pair(WeightsDtype::kBf16, 0.03), std::pair(WeightsDtype::kInt8, 0.05)}) {
    ServerOptions options = OptionsFor(folder.path(), LoadModel);
    options.models.weights_dtype = dtype;
    const InProcessServer server(options);
    AdminClient client(server);
    const auto verified = client.Verify("gpt2", 1);
    ASSERT_THAT(verified, IsOk());
    EXPECT_EQ(verified->weights_dtype(), Name(dtype));
    std::vector<std::string> names;
    for (const auto& difference : verified->differences()) {
      names.push_back(difference.of());
      EXPECT_GT(difference.relative_l2(), 1e-5) << difference.of();
      EXPECT_LT(difference.relative_l2(), most) << difference.of();
      EXPECT_EQ(difference.has_top1_agreement(), difference.of() == "logits");
    }
    EXPECT_THAT(names, ElementsAre("layer 0", "layer 1", "last hidden states", "logits"));
    EXPECT_GE(verified->differences(3).top1_agreement(), 0.8);
    EXPECT_LE(verified->differences(3).top1_agreement(), 1.0);
  }
}

TEST(CheckpointTest, VerifyFindsF32Exact) {
  const FakeModelFolder folder;
  PutGolden(folder, "gpt2");
  const InProcessServer server(OptionsFor(folder.path(), LoadModel));
  const auto verified = AdminClient(server).Verify("gpt2");
  ASSERT_THAT(verified, IsOk());
  EXPECT_EQ(verified->weights_dtype(), "fp32");
  EXPECT_THAT(verified->differences(), IsEmpty());
}

}  // namespace
}  // namespace attention
