// What one client can take of the server before anybody has looked at what it wants.

#include "gmock/gmock.h"
#include "proto/grpc/health/v1/health.grpc.pb.h"
#include "proto/grpc/reflection/v1/reflection.grpc.pb.h"
#include "tests/server/decode/decode_stream.h"
#include "tests/server/http2_bytes.h"
#include "tests/server/observability/http_client.h"
#include "tests/server/security/secure_server.h"
#include "tests/support/eventually.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

absl::Status AttendWith(grpc::ClientContext& context, const std::shared_ptr<grpc::Channel>& channel,
                        const v1::AttendRequest& request) {
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(5));
  v1::AttendResponse response;
  return ToAbslStatus(v1::AttentionService::NewStub(channel)->Attend(&context, request, &response));
}

v1::AttendRequest ShortRequest() { return DemoRequest(SeededTensor(1, Dtype::kF32, {1, 2, 512})); }

TEST(ConnectionLimitsTest, HeadersAreLimited) {
  InProcessServer server({.connections = {.max_header_bytes = 4096}});
  grpc::ClientContext large;
  large.AddMetadata("x-much", std::string(5000, 'x'));
  EXPECT_THAT(AttendWith(large, server.NewChannel(), ShortRequest()).code(),
              absl::StatusCode::kResourceExhausted);
  // A connection of its own: gRPC may close the one that had too much.
  grpc::ClientContext small;
  small.AddMetadata("x-little", std::string(1000, 'x'));
  EXPECT_THAT(AttendWith(small, server.NewChannel(), ShortRequest()), IsOk());
}

// The library enforces what it announces.
TEST(ConnectionLimitsTest, StreamsOfOneConnectionAreLimited) {
  InProcessServer server({.connections = {.max_streams = 2}});
  Http2Socket socket(server.address());
  const std::string limit("\0\x03\0\0\0\x02", 6);  // the setting MAX_CONCURRENT_STREAMS: 2
  EXPECT_THAT(socket.ReceiveUntil(limit), HasSubstr(limit));
}

TEST(ConnectionLimitsTest, ConnectionsAreLimitedAndGivenBack) {
  InProcessServer server({.connections = {.max_connections = 2}, .metrics_listen = "127.0.0.1:0"});
  const auto connect = [&] {
    return Connect(server.address(), grpc::InsecureChannelCredentials());
  };
  const auto first = connect();
  auto second = connect();
  EXPECT_THAT(Attend(first), IsOk());
  EXPECT_THAT(Attend(second), IsOk());
  EXPECT_THAT(Attend(connect()).code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Attend(first), IsOk()) << "those that are open stay";
  EXPECT_THAT(HttpGet(server.server().metrics_address(), "/metrics"),
              AllOf(HasSubstr("\nattend_connections 2\n"),
                    HasSubstr("\nattend_connections_refused_total 1\n")));
  second.reset();
  EXPECT_TRUE(Eventually([&] { return Attend(connect()).ok(); }))
      << "a connection that has ended gives its place back";
}

// The connections that had to wait so far.
int64_t CountDelayed(InProcessServer& server) {
  constexpr std::string_view kName = "\nattend_connections_delayed_total ";
  const std::string text = HttpGet(server.server().metrics_address(), "/metrics");
  const size_t found = text.find(kName);
  return found == std::string::npos ? -1 : std::stoll(text.substr(found + kName.size()));
}

// Calls that bring no work: each on the channel, in one way or another.
void AskHealth(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  grpc::health::v1::HealthCheckResponse response;
  EXPECT_TRUE(grpc::health::v1::Health::NewStub(channel)->Check(&context, {}, &response).ok());
}
void WatchHealth(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  grpc::health::v1::HealthCheckResponse response;
  const auto reader = grpc::health::v1::Health::NewStub(channel)->Watch(&context, {});
  EXPECT_TRUE(reader->Read(&response));
  context.TryCancel();
  reader->Finish();
}
void Reflect(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  const auto call =
      grpc::reflection::v1::ServerReflection::NewStub(channel)->ServerReflectionInfo(&context);
  call->WritesDone();
  EXPECT_TRUE(call->Finish().ok());
}
void OpenDecodeForNothing(const std::shared_ptr<grpc::Channel>& channel) {
  DecodeStream stream(channel);
  EXPECT_TRUE(stream.End().ok());
}

TEST(ConnectionLimitsTest, AHostThatMakesManyCallsWithoutWorkOpensConnectionsSlowly) {
  for (const auto& call : {AskHealth, WatchHealth, Reflect, OpenDecodeForNothing}) {
    InProcessServer server({.metrics_listen = "127.0.0.1:0", .calls_without_work = 1});
    const auto channel = server.NewChannel();
    EXPECT_TRUE(Eventually([&] {
      for (int i = 0; i < 10; ++i) {
        call(channel);
      }
      // The first is taken at once, the second waits.
      return Attend(server.NewChannel()).ok() && Attend(server.NewChannel()).ok() &&
             CountDelayed(server) > 0;
    }));
    EXPECT_THAT(Attend(channel), IsOk()) << "open connections are served as before";
  }
}

TEST(ConnectionLimitsTest, WorkDelaysNoConnection) {
  InProcessServer server({.metrics_listen = "127.0.0.1:0", .calls_without_work = 1});
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(Attend(server.NewChannel()), IsOk());
  }
  EXPECT_EQ(CountDelayed(server), 0);
}

TEST(ConnectionLimitsTest, CallsThatAreRefusedForTheirHeadersDelayNoConnection) {
  InProcessServer server({.metrics_listen = "127.0.0.1:0", .calls_without_work = 1});
  for (int i = 0; i < 20; ++i) {
    const auto channel = server.NewChannel();
    grpc::ClientContext unary;
    unary.AddMetadata("attend-priority", "urgent");
    EXPECT_FALSE(AttendWith(unary, channel, ShortRequest()).ok());
    grpc::ClientContext stream;
    stream.AddMetadata("attend-priority", "urgent");
    EXPECT_FALSE(v1::AttentionService::NewStub(channel)->Decode(&stream)->Finish().ok());
  }
  EXPECT_EQ(CountDelayed(server), 0);
}

TEST(ConnectionLimitsTest, AnOldConnectionGivesWayWithoutHarmToItsCalls) {
  InProcessServer server({.connections = {.max_age = absl::Milliseconds(100)}});
  const auto channel = server.NewChannel();
  DecodeStream stream(channel);
  v1::DecodeRequest open;
  open.mutable_open()->set_model("demo");
  // The channel leaves its state when the server says that the connection is old.
  ASSERT_TRUE(channel->WaitForStateChange(
      GRPC_CHANNEL_READY, std::chrono::system_clock::now() + std::chrono::minutes(5)));
  stream.Send(open);
  EXPECT_TRUE(stream.Read().has_value());
  EXPECT_THAT(Attend(channel), IsOk()) << "on a new connection";
}

}  // namespace
}  // namespace attention
