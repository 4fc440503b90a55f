// Who may call what, and where.
#include "gmock/gmock.h"
#include "proto/grpc/health/v1/health.grpc.pb.h"
#include "proto/inference/open_inference.grpc.pb.h"
#include "tests/server/decode/decode_stream.h"
#include "tests/server/models/admin_client.h"
#include "tests/server/security/secure_server.h"
#include "tests/support/eventually.h"
#include "tests/support/matchers.h"
#include "tests/support/model_folder.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

using ::testing::HasSubstr;

constexpr absl::StatusCode kDenied = absl::StatusCode::kPermissionDenied;
constexpr absl::StatusCode kUnauthenticated = absl::StatusCode::kUnauthenticated;

// Hashes of "all", "some", "admin" and "few".
constexpr char kTokenFile[] = R"({"tokens": [
  {"sha256": "5ef5ef0364b6939c4ca61f34b393f7b368d1be8619647aaf83d5b395919ab629", "tenant": "one"},
  {"sha256": "a6b46dd0d1ae5e86cbc8f37e75ceeb6760230c1ca4ffbcb0c97b96dd7d9c464b", "tenant": "two",
   "models": ["de*"], "max_priority": "low"},
  {"sha256": "8c6976e5b5410415bde908bd4dee15dfb167a9c873fc4bb8a81f6f2ab448a918", "tenant": "ops",
   "admin": true},
  {"sha256": "fa95e5080882f52bd40ccab2dee9c88c4d1fad7ad1093f93a0edcd8fb42d2bee", "tenant": "few",
   "admin": true, "models": ["de*"]}]})";

using Native = v1::AttentionService::Stub;
using Open = inference::GRPCInferenceService::Stub;

/// Call(stub, &Native::ListModels, "some").
template <typename Stub, typename Request, typename Reply>
absl::StatusOr<Reply> Call(Stub& stub,
                           grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                        Reply*),
                           const std::string& token, const Request& request = {}) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(5));
  if (!token.empty()) {
    context.AddMetadata("authorization", "Bearer " + token);
  }
  Reply reply;
  const grpc::Status status = (stub.*method)(&context, request, &reply);
  return status.ok() ? absl::StatusOr<Reply>(reply) : ToAbslStatus(status);
}

absl::Status Check(const std::shared_ptr<grpc::Channel>& channel) {
  return Call(*grpc::health::v1::Health::NewStub(channel), &grpc::health::v1::Health::Stub::Check,
              "")
      .status();
}

inference::ModelInferRequest Infer(const std::string& model) {
  inference::ModelInferRequest request;
  request.set_model_name(model);
  return request;
}

/// `demo` and `small`; tokens "all", "some" (of demo, low priority), "admin" and "few" (its models
/// alone).
class AccessTest : public ::testing::Test {
 protected:
  const TempFolder folder_;
  InProcessServer server_{{.admin_listen = "127.0.0.1:0",
                           .tokens = folder_.Write("tokens.json", kTokenFile),
                           .random_models = {{.name = "small", .d_model = 512, .num_heads = 2}},
                           .logged_requests = LoggedRequests::kAll}};
  const std::shared_ptr<grpc::Channel> channel_ = server_.NewChannel();
  const std::unique_ptr<Native> native_ = v1::AttentionService::NewStub(channel_);
  const std::unique_ptr<Open> open_ = inference::GRPCInferenceService::NewStub(channel_);
};

TEST_F(AccessTest, NothingWithoutAToken) {
  const auto has_none =
      StatusIs(kUnauthenticated, "authorization: expected metadata \"Bearer TOKEN\", found none");
  EXPECT_THAT(Attend(channel_), has_none);
  EXPECT_THAT(Call(*native_, &Native::ListModels, ""), has_none);
  EXPECT_THAT(Call(*native_, &Native::GetStatistics, ""), has_none);
  EXPECT_THAT(Call(*native_, &Native::ReloadModels, ""), has_none);
  EXPECT_THAT(Call(*open_, &Open::ModelInfer, "", Infer("demo")), has_none);
  EXPECT_THAT(Call(*open_, &Open::RepositoryIndex, ""), has_none);
  EXPECT_THAT(Call(*open_, &Open::ServerMetadata, ""), has_none);
  grpc::ClientContext context;
  const auto decode = native_->Decode(&context);
  v1::DecodeResponse response;
  EXPECT_FALSE(decode->Read(&response));
  EXPECT_THAT(ToAbslStatus(decode->Finish()), has_none);
  EXPECT_THAT(Attend(channel_, "guess"),
              StatusIs(kUnauthenticated, HasSubstr("expected a token that this server knows")));
}

TEST_F(AccessTest, HealthNeedsNone) {
  EXPECT_THAT(Check(channel_), IsOk());
  EXPECT_THAT(Call(*open_, &Open::ServerLive, ""), IsOk());
  EXPECT_THAT(Call(*open_, &Open::ServerReady, ""), IsOk());
}

TEST_F(AccessTest, ATokenOpensItsModelsAndShowsNoOthers) {
  EXPECT_THAT(Attend(channel_, "all", "small"), IsOk());
  EXPECT_THAT(Attend(channel_, "some", "demo"), IsOk());
  const auto is_denied = StatusIs(kDenied, HasSubstr("that tenant \"two\" may use, found \""));
  EXPECT_THAT(Attend(channel_, "some", "small"), is_denied);
  EXPECT_THAT(Attend(channel_, "some", "missing"), is_denied) << "as if it were there";
  EXPECT_THAT(Call(*open_, &Open::ModelInfer, "some", Infer("small")), is_denied);
  EXPECT_THAT(Call(*open_, &Open::ModelInfer, "some", Infer("attention")), is_denied);
  EXPECT_THAT(Attend(channel_, "some", "deleted"),
              StatusIs(absl::StatusCode::kNotFound, ::testing::Not(HasSubstr("small"))));
  v1::GetModelRequest get;
  get.set_model("small");
  EXPECT_THAT(Call(*native_, &Native::GetModel, "some", get), is_denied);
  const auto models = Call(*native_, &Native::ListModels, "some");
  ASSERT_THAT(models, IsOk());
  ASSERT_EQ(models->models_size(), 1);
  EXPECT_EQ(models->models(0).name(), "demo");
  EXPECT_EQ(Call(*native_, &Native::ListModels, "all")->models_size(), 2);
  const auto index = Call(*open_, &Open::RepositoryIndex, "few");
  ASSERT_THAT(index, IsOk());
  ASSERT_EQ(index->models_size(), 1);
  EXPECT_EQ(index->models(0).name(), "demo");
  EXPECT_EQ(Call(*open_, &Open::ModelStatistics, "some")->model_stats_size(), 1);
  const auto statistics = Call(*native_, &Native::GetStatistics, "some");
  ASSERT_THAT(statistics, IsOk());
  for (const v1::ModelStatistics& model : statistics->models()) {
    EXPECT_EQ(model.model(), "demo");
  }
}

TEST_F(AccessTest, ASessionOpensOnItsModelsOnly) {
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer some");
  const auto decode = native_->Decode(&context);
  v1::DecodeRequest request;
  request.mutable_open()->set_model("small");
  ASSERT_TRUE(decode->Write(request));
  v1::DecodeResponse response;
  ASSERT_TRUE(decode->Read(&response));
  EXPECT_EQ(response.result().code(), static_cast<int>(kDenied)) << response.result().message();
  decode->WritesDone();
  EXPECT_FALSE(decode->Read(&response));
  EXPECT_TRUE(decode->Finish().ok());
}

TEST_F(AccessTest, TheTokenSaysWhoseTheRequestIs) {
  ::testing::internal::CaptureStderr();
  grpc::ClientContext context;
  context.AddMetadata("authorization", "bearer all");
  context.AddMetadata("attend-tenant", "somebody else");
  v1::AttendResponse response;
  const auto request = DemoRequest(SeededTensor(1, Dtype::kF32, {1, 2, 512}));
  EXPECT_TRUE(native_->Attend(&context, request, &response).ok());
  // The log has the line when the answer has gone.
  server_.server().Drain(absl::Minutes(5));
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("tenant=one"));
}

TEST_F(AccessTest, OnlyTheAdminRightAdministersOnThePublicListener) {
  const auto is_denied = StatusIs(
      kDenied, HasSubstr("expected a caller with the admin right, found one without; ask the admin "
                         "listener at " +
                         server_.server().admin_address()));
  EXPECT_THAT(Call(*native_, &Native::LoadModel, "all"), is_denied);
  EXPECT_THAT(Call(*native_, &Native::UnloadModel, "all"), is_denied);
  EXPECT_THAT(Call(*native_, &Native::ReloadModels, "all"), is_denied);
  EXPECT_THAT(Call(*native_, &Native::VerifyModel, "all"), is_denied);
  EXPECT_THAT(Call(*open_, &Open::RepositoryIndex, "all"), IsOk());
  EXPECT_THAT(Call(*open_, &Open::RepositoryModelLoad, "all"), is_denied);
  EXPECT_THAT(Call(*open_, &Open::RepositoryModelUnload, "all"), is_denied);
  EXPECT_THAT(Call(*open_, &Open::SystemSharedMemoryStatus, "all"), is_denied);
  EXPECT_THAT(Call(*open_, &Open::SystemSharedMemoryRegister, "all"), is_denied);
  EXPECT_THAT(Call(*open_, &Open::SystemSharedMemoryUnregister, "all"), is_denied);
  EXPECT_THAT(Call(*native_, &Native::ReloadModels, "admin").status().code(),
              absl::StatusCode::kFailedPrecondition)
      << "there is no folder of models";
}

TEST_F(AccessTest, AnAdministratorsModelsMayBeFew) {
  const FakeModelFolder models;
  models.Put("demoted", "7");
  models.Put("other", "7");
  ServerOptions options = OptionsFor(models.path());
  options.tokens = folder_.path() + "/tokens.json";
  const InProcessServer server(options);
  const auto native = v1::AttentionService::NewStub(server.NewChannel());
  const auto open = inference::GRPCInferenceService::NewStub(server.NewChannel());
  const auto is_denied = StatusIs(kDenied, HasSubstr("that tenant \"few\" may use, found \""));
  v1::UnloadModelRequest unload;
  inference::RepositoryModelUnloadRequest open_unload;
  for (const char* model : {"other", "missing"}) {
    unload.set_model(model);
    open_unload.set_model_name(model);
    EXPECT_THAT(Call(*native, &Native::UnloadModel, "few", unload), is_denied);
    EXPECT_THAT(Call(*open, &Open::RepositoryModelUnload, "few", open_unload), is_denied);
  }
  EXPECT_THAT(Call(*native, &Native::ReloadModels, "few"),
              StatusIs(kDenied, HasSubstr("expected a caller who may use all models")));
  unload.set_model("de-nothing");
  EXPECT_THAT(Call(*native, &Native::UnloadModel, "few", unload),
              StatusIs(absl::StatusCode::kNotFound, ::testing::Not(HasSubstr("other"))));
  unload.set_model("demoted");
  EXPECT_THAT(Call(*native, &Native::UnloadModel, "few", unload), IsOk());
}

TEST_F(AccessTest, ASessionIsResumedByItsTenantAlone) {
  std::string token;
  {
    DecodeStream stream(channel_, "some");
    token = stream.Must(OpenToResume()).result.resume_token();
    stream.Cancel();
  }
  EXPECT_TRUE(Eventually([&] {
    EXPECT_EQ(DecodeStream(channel_, "all").Do(Resuming(token)).code(),
              absl::StatusCode::kNotFound);
    return DecodeStream(channel_, "some").Do(Resuming(token)).code() == absl::StatusCode::kOk;
  }));
}

TEST_F(AccessTest, ATokenThatIsTakenBackEndsItsStreams) {
  DecodeStream stream(channel_, "all");
  stream.Must(OpenToResume());
  folder_.Write("tokens.json", R"({"tokens": []})");
  EXPECT_TRUE(Eventually([&] {
    stream.Send(RowsStep(SeededTensor(1, Dtype::kF32, {1, kDemoWidth}), 0, 1));
    return !stream.Read().has_value();
  }));
  EXPECT_EQ(stream.End().error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

// Only the token "all", whose entry says `more`.
std::string OnlyAll(const std::string& tenant, const std::string& more = "") {
  return R"({"tokens": [{"sha256":
    "5ef5ef0364b6939c4ca61f34b393f7b368d1be8619647aaf83d5b395919ab629", "tenant": ")" +
         tenant + "\"" + more + "}]}";
}

TEST_F(AccessTest, AStreamHasTheRightsThatItsTokenHasNow) {
  DecodeStream stream(channel_, "all");
  stream.Must(OpenToResume());
  const Tensor row = SeededTensor(1, Dtype::kF32, {1, kDemoWidth});
  stream.Must(RowsStep(row, 0, 1));
  folder_.Write("tokens.json", OnlyAll("one", R"(, "models": ["small"])"));
  absl::StatusCode code = absl::StatusCode::kOk;
  EXPECT_TRUE(Eventually([&] {
    code = stream.Do(RowsStep(row, 0, 1)).code();
    return code != absl::StatusCode::kOk;
  }));
  EXPECT_EQ(code, kDenied);
  EXPECT_EQ(stream.Do(ForkTo(1)).code(), kDenied);
  EXPECT_EQ(stream.Do(TruncateTo(0)).code(), kDenied);
  folder_.Write("tokens.json", OnlyAll("one"));
  EXPECT_TRUE(
      Eventually([&] { return stream.Do(RowsStep(row, 0, 1)).code() == absl::StatusCode::kOk; }));
}

TEST_F(AccessTest, ATokenThatBecomesAnothersEndsItsStreams) {
  DecodeStream stream(channel_, "all");
  stream.Must(OpenToResume());
  folder_.Write("tokens.json", OnlyAll("somebody else"));
  EXPECT_TRUE(Eventually([&] {
    stream.Send(RowsStep(SeededTensor(1, Dtype::kF32, {1, kDemoWidth}), 0, 1));
    return !stream.Read().has_value();
  }));
  EXPECT_EQ(stream.End().error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(AccessTest, TheLocalAdminListenerTrustsWhoReachesIt) {
  const auto channel = server_.NewAdminChannel();
  EXPECT_THAT(Attend(channel, "", "small"), IsOk());
  EXPECT_THAT(
      Call(*v1::AttentionService::NewStub(channel), &Native::ReloadModels, "").status().code(),
      absl::StatusCode::kFailedPrecondition);
}

TEST(AdminTest, WithoutTokensThePublicListenerAdministersNothing) {
  InProcessServer server;
  EXPECT_THAT(
      Call(*v1::AttentionService::NewStub(server.NewChannel()), &Native::LoadModel, "").status(),
      StatusIs(kDenied,
               "LoadModel: expected a caller with the admin right, found one without; ask a server "
               "with an admin listener (--admin-listen), or with a token that has the right "
               "(--tokens)"));
}

TEST(HealthListenerTest, ServesHealthInPlaintextAndNothingElse) {
  InProcessServer server({.health_listen = "127.0.0.1:0",
                          .tls_certificate = TlsFile("server.pem"),
                          .tls_key = TlsFile("server.key")});
  const auto channel =
      Connected(server.server().health_address(), grpc::InsecureChannelCredentials());
  EXPECT_THAT(Check(channel), IsOk());
  EXPECT_THAT(Attend(channel).code(), absl::StatusCode::kUnimplemented);
  grpc::health::v1::HealthCheckRequest large;
  large.set_service(std::string(5000, 'x'));
  EXPECT_THAT(Call(*grpc::health::v1::Health::NewStub(channel),
                   &grpc::health::v1::Health::Stub::Check, "", large),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("4096")));
  EXPECT_THAT(Check(Connected(server.address(), TrustingCa())), IsOk()) << "there too";
}

TEST(TokensAtStartTest, AFileThatCannotBeReadIsAnError) {
  EXPECT_THAT(Server::Check({.tokens = "/none/tokens.json"}),
              StatusIs(absl::StatusCode::kNotFound,
                       "--tokens: cannot read /none/tokens.json: No such file or directory"));
}

}  // namespace
}  // namespace attention
