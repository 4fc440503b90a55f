#include "server/health.h"

#include <memory>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "proto/grpc/health/v1/health.grpc.pb.h"
#include "server/services/calls/open_streams.h"
#include "tests/server/wire_tensors.h"
#include "tests/support/eventually.h"
#include "tests/support/in_process_server.h"

namespace attention {
namespace {

using ::grpc::health::v1::Health;
using ::grpc::health::v1::HealthCheckRequest;
using ::grpc::health::v1::HealthCheckResponse;

HealthCheckRequest Named(const std::string& name) {
  HealthCheckRequest request;
  request.set_service(name);
  return request;
}

class HealthTest : public ::testing::Test {
 protected:
  grpc::Status Check(const std::string& name, HealthCheckResponse* response) {
    grpc::ClientContext context;
    return stub_->Check(&context, Named(name), response);
  }

  InProcessServer server_;
  const std::unique_ptr<Health::Stub> stub_ = Health::NewStub(server_.NewChannel());
};

TEST_F(HealthTest, ServesTheServerItsServicesAndEachModel) {
  for (const char* name : {"", "attention.v1.AttentionService", "inference.GRPCInferenceService",
                           "model/demo", "model/attention"}) {
    HealthCheckResponse response;
    ASSERT_TRUE(Check(name, &response).ok()) << name;
    EXPECT_EQ(response.status(), HealthCheckResponse::SERVING) << name;
  }
}

TEST(HealthRegistryTest, NothingServesWhileTheComputeThreadsStall) {
  HealthRegistry registry;
  registry.Set("", true);
  registry.Set("model/a", false);
  registry.SetStalled(true);
  EXPECT_EQ(registry.IsServing(""), false);
  EXPECT_EQ(registry.IsServing("model/none"), std::nullopt);
  registry.SetStalled(false);
  EXPECT_EQ(registry.IsServing(""), true);
  EXPECT_EQ(registry.IsServing("model/a"), false);
}

TEST_F(HealthTest, CheckDoesNotFindAnUnknownName) {
  HealthCheckResponse response;
  const grpc::Status status = Check("model/none", &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(
      status.error_message(),
      "service: expected empty, the full name of a service that is served, or model/NAME of a "
      "model that is known, found \"model/none\"");
}

TEST_F(HealthTest, WatchTellsThatANameIsUnknownAndStays) {
  grpc::ClientContext context;
  const auto reader = stub_->Watch(&context, Named("model/none"));
  HealthCheckResponse response;
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVICE_UNKNOWN);
  context.TryCancel();
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(HealthTest, WatchTellsWhenTheServerDrains) {
  grpc::ClientContext context;
  const auto reader = stub_->Watch(&context, Named("model/demo"));
  HealthCheckResponse response;
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  std::thread shutdown([&] { server_.server().Shutdown(absl::Seconds(10)); });
  EXPECT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  shutdown.join();
}

TEST_F(HealthTest, ManyWatchesComeAndGo) {
  for (int i = 0; i < 50; ++i) {
    grpc::ClientContext context;
    const auto reader = stub_->Watch(&context, Named(""));
    HealthCheckResponse response;
    EXPECT_TRUE(reader->Read(&response));
    EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  }
  HealthCheckResponse response;
  EXPECT_TRUE(Check("", &response).ok());
}

TEST_F(HealthTest, RefusesANameThatIsNone) {
  HealthCheckResponse response;
  const grpc::Status checked = Check(std::string(5000, 'x'), &response);
  grpc::ClientContext context;
  const auto reader = stub_->Watch(&context, Named(std::string(5000, 'x')));
  EXPECT_FALSE(reader->Read(&response));
  for (const grpc::Status& status : {checked, reader->Finish()}) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_EQ(
        status.error_message(),
        "expected a message grpc.health.v1.HealthCheckRequest of at most 4096 bytes, found 5003");
  }
}

// A stream of Watch that has told its first state, or did not begin.
struct Watcher {
  explicit Watcher(Health::Stub& stub) : reader(stub.Watch(&context, Named(""))) {
    HealthCheckResponse response;
    is_open = reader->Read(&response);
  }
  ~Watcher() {
    context.TryCancel();
    if (is_open) {
      reader->Finish();
    }
  }

  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReader<HealthCheckResponse>> reader;
  bool is_open = false;
};

TEST_F(HealthTest, WatchesOfOneMachineLeaveAsManyToOthers) {
  std::vector<std::unique_ptr<Watcher>> watchers;
  std::vector<std::unique_ptr<Health::Stub>> stubs;
  const int64_t most = OpenStreams::kMax / 2;
  for (int64_t i = 0; i < most; ++i) {
    if (i % 1000 == 0) {  // as many calls as a connection may have, or nearly
      stubs.push_back(Health::NewStub(server_.NewChannel()));
    }
    watchers.push_back(std::make_unique<Watcher>(*stubs.back()));
    ASSERT_TRUE(watchers.back()->is_open) << i;
  }
  {
    Watcher one_more(*stub_);
    ASSERT_FALSE(one_more.is_open);
    const grpc::Status status = one_more.reader->Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_EQ(status.error_message(),
              "Watch: 2048 of 4096 streams without a token are open, and the host "
              "127.0.0.1 may hold at most as many as it leaves free");
    EXPECT_EQ(one_more.context.GetServerTrailingMetadata().count("grpc-retry-pushback-ms"), 1);
  }
  HealthCheckResponse response;
  EXPECT_TRUE(Check("", &response).ok()) << "a call that does not stay";
  watchers.pop_back();
  EXPECT_TRUE(Eventually([&] { return Watcher(*stub_).is_open; }));
}

}  // namespace
}  // namespace attention
