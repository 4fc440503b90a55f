// What an operator hears of calls that are refused or given up: each has a line, is counted, and
// says who it was.
#include <grpcpp/generic/generic_stub.h>

#include <regex>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "tests/server/observability/http_client.h"
#include "tests/server/security/secure_server.h"
#include "tests/support/eventually.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// The hash of "all".
constexpr char kOneToken[] = R"({"tokens": [{"tenant": "one",
  "sha256": "5ef5ef0364b6939c4ca61f34b393f7b368d1be8619647aaf83d5b395919ab629"}]})";

class RefusedCallsTest : public ::testing::Test {
 protected:
  RefusedCallsTest() { ::testing::internal::CaptureStderr(); }
  ~RefusedCallsTest() override {
    if (server_ != nullptr) {
      EndedLog();
    }
  }

  /// All lines, once all calls are over.
  std::string EndedLog() {
    server_->server().Drain(absl::Minutes(5));
    server_.reset();
    return ::testing::internal::GetCapturedStderr();
  }
  /// The only line about `rpc`.
  static std::string LineOf(const std::string& rpc, const std::string& log) {
    std::smatch line;
    EXPECT_TRUE(std::regex_search(log, line, std::regex("[^\n]* rpc=" + rpc + " [^\n]*")))
        << rpc << " is not in\n"
        << log;
    const std::string text = line.str();
    EXPECT_FALSE(std::regex_search(line.suffix().str(), std::regex(" rpc=" + rpc + " "))) << log;
    return text;
  }
  void Prepare(grpc::ClientContext& context) const {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(5));
    context.AddMetadata("x-request-id", "mine-7");
    context.AddMetadata("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00");
  }

  const TempFolder folder_;
  std::unique_ptr<InProcessServer> server_ = std::make_unique<InProcessServer>(
      ServerOptions{.tokens = folder_.Write("tokens.json", kOneToken)});
  const std::unique_ptr<v1::AttentionService::Stub> stub_ =
      v1::AttentionService::NewStub(server_->NewChannel());
};

TEST_F(RefusedCallsTest, EachKindHasALineWithItsIdItsTraceAndItsCaller) {
  {
    grpc::ClientContext context;
    Prepare(context);
    v1::AttendResponse response;
    EXPECT_FALSE(stub_->Attend(&context, {}, &response).ok());
    EXPECT_EQ(context.GetServerTrailingMetadata().count("x-request-id"), 1);
  }
  {
    grpc::ClientContext context;
    Prepare(context);
    const auto decode = stub_->Decode(&context);
    v1::DecodeResponse response;
    EXPECT_FALSE(decode->Read(&response));
    EXPECT_FALSE(decode->Finish().ok());
  }
  {
    grpc::ClientContext context;
    Prepare(context);
    context.AddMetadata("authorization", "Bearer all");
    v1::ModelStates states;
    EXPECT_FALSE(stub_->UnloadModel(&context, {}, &states).ok());
  }
  {
    grpc::ClientContext context;
    Prepare(context);
    v1::Model model;
    EXPECT_FALSE(stub_->GetModel(&context, {}, &model).ok());
  }
  EXPECT_TRUE(Eventually([&] {
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer all");
    v1::ServerStatistics statistics;
    EXPECT_TRUE(stub_->GetStatistics(&context, {}, &statistics).ok());
    return statistics.failed() + statistics.refused() == 4;
  }));
  const std::string log = EndedLog();
  for (const auto& [rpc, code] :
       {std::pair("Attend", "UNAUTHENTICATED"), std::pair("Decode", "UNAUTHENTICATED"),
        std::pair("UnloadModel", "PERMISSION_DENIED"), std::pair("GetModel", "UNAUTHENTICATED")}) {
    EXPECT_THAT(LineOf(rpc, log),
                AllOf(HasSubstr(std::string(" code=") + code), HasSubstr(" request_id=mine-7 "),
                      HasSubstr(" trace_id=4bf92f3577b34da6a3ce929d0e0e4736"),
                      ContainsRegex(" peer=ipv4:127\\.0\\.0\\.1:[0-9]+ ")));
  }
}

TEST_F(RefusedCallsTest, AnIdThatIsNoneIsReplaced) {
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer all");
  context.AddMetadata("x-request-id", std::string(200, 'x'));
  v1::AttendResponse response;
  const grpc::Status status = stub_->Attend(&context, {}, &response);
  EXPECT_THAT(status.error_message(), HasSubstr("metadata x-request-id: expected at most 128"));
  const std::string line = LineOf("Attend", EndedLog());
  EXPECT_THAT(line,
              AllOf(Not(HasSubstr("xxx")), ContainsRegex(" request_id=[0-9a-f]+-[0-9a-f]+ ")));
}

TEST_F(RefusedCallsTest, TheCallerGetsTheIdThatTheLogHas) {
  grpc::ClientContext context;
  const auto decode = stub_->Decode(&context);
  v1::DecodeResponse response;
  EXPECT_FALSE(decode->Read(&response));
  EXPECT_FALSE(decode->Finish().ok());
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto id = trailers.find("x-request-id");
  ASSERT_NE(id, trailers.end());
  EXPECT_THAT(LineOf("Decode", EndedLog()),
              HasSubstr(" request_id=" + std::string(id->second.data(), id->second.size()) + " "));
}

TEST_F(RefusedCallsTest, WhatARequestSaysIsQuotedInPart) {
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer all");
  v1::AttendRequest request;
  request.set_model(std::string(1 << 16, 'm'));  // the longest name
  v1::AttendResponse response;
  const grpc::Status status = stub_->Attend(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND) << "and the answer arrives";
  EXPECT_LE(status.error_message().size(), 2048u);
  EXPECT_LE(LineOf("Attend", EndedLog()).size(), 3000u);
}

TEST_F(RefusedCallsTest, OfAFloodTheLogSaysHowMuchItLeftOut) {
  constexpr int kCalls = 200;
  for (int i = 0; i < kCalls; ++i) {
    grpc::ClientContext context;
    v1::Model model;
    EXPECT_FALSE(stub_->GetModel(&context, {}, &model).ok());
  }
  const std::string log = EndedLog();
  int lines = 0;
  int64_t left_out = 0;
  const std::regex pattern(" rpc=GetModel | lines_left_out=([0-9]+)");
  for (std::sregex_iterator found(log.begin(), log.end(), pattern), end; found != end; ++found) {
    if ((*found)[1].matched) {
      left_out += std::stoll((*found)[1].str());
    } else {
      ++lines;
    }
  }
  EXPECT_EQ(lines + left_out, kCalls) << log;
  EXPECT_GE(lines, 20);
}

// Headers of an Attend, and no message.
class Upload {
 public:
  explicit Upload(const std::shared_ptr<grpc::Channel>& channel) : stub_(channel) {
    context_.AddMetadata("authorization", "Bearer all");
    call_ = stub_.PrepareCall(&context_, "/attention.v1.AttentionService/Attend", &queue_);
    call_->StartCall(this);
    Await();
  }
  ~Upload() {
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  void Cancel() {
    context_.TryCancel();
    Finish();
  }
  void End() {
    call_->WritesDone(this);
    Await();
    Finish();
  }

 private:
  void Await() {
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue_.Next(&tag, &ok));
  }
  void Finish() {
    grpc::Status status;
    call_->Finish(&status, this);
    Await();
  }

  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
};

TEST_F(RefusedCallsTest, ACancelledUploadIsNoInvalidArgument) {
  server_ =
      std::make_unique<InProcessServer>(ServerOptions{.tokens = folder_.path() + "/tokens.json",
                                                      .logged_requests = LoggedRequests::kAll,
                                                      .metrics_listen = "127.0.0.1:0"});
  const auto channel = server_->NewChannel();
  // gRPC drops a call that is cancelled before the server takes it, so one upload may not be
  // enough.
  EXPECT_TRUE(Eventually([&] {
    Upload upload(channel);
    EXPECT_THAT(Attend(channel, "all"), IsOk());
    upload.Cancel();
    return absl::StrContains(HttpGet(server_->server().metrics_address(), "/metrics"),
                             "code=\"CANCELLED\"");
  }));
  const std::string log = EndedLog();
  EXPECT_THAT(log, HasSubstr("code=CANCELLED"));
  EXPECT_THAT(log, Not(HasSubstr("code=INVALID_ARGUMENT")));
}

TEST_F(RefusedCallsTest, AnUploadThatEndsWithoutAMessageIsInvalid) {
  Upload(server_->NewChannel()).End();
  EXPECT_THAT(EndedLog(), HasSubstr("code=INVALID_ARGUMENT"));
}

}  // namespace
}  // namespace attention
