#include <thread>

#include "gmock/gmock.h"
#include "proto/grpc/health/v1/health.grpc.pb.h"
#include "tests/server/wire_tensors.h"
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

TEST_F(HealthTest, ServesTheServerItsServiceAndEachModel) {
  for (const char* name : {"", "attention.v1.AttentionService", "model/demo"}) {
    HealthCheckResponse response;
    ASSERT_TRUE(Check(name, &response).ok()) << name;
    EXPECT_EQ(response.status(), HealthCheckResponse::SERVING) << name;
  }
}

TEST_F(HealthTest, CheckDoesNotFindAnUnknownName) {
  HealthCheckResponse response;
  const grpc::Status status = Check("model/none", &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(status.error_message(),
            "service: expected empty, a service's full name or model/NAME, found \"model/none\"");
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

}  // namespace
}  // namespace attention
