// Messages that begin and do not go on: bytes on the wire, as no gRPC client would send them.
#include <string>

#include "gmock/gmock.h"
#include "tests/server/http2_bytes.h"
#include "tests/server/wire_tensors.h"
#include "tests/support/eventually.h"
#include "tests/support/in_process_server.h"

namespace attention {
namespace {

constexpr int kStreams = 20;

/// A connection whose calls each begin a message of 1 MiB and send a byte of it.
class SlowUploads {
 public:
  SlowUploads(const std::string& address, const std::string& path) : socket_(address) {
    for (uint32_t stream = 1; stream < 2 * kStreams; stream += 2) {
      socket_.Send(Frame(1, 4, stream, CallHeaders(path)) +
                   Frame(0, 0, stream, std::string("\0\0\x10\0\0", 5) + "\x0a"));
    }
  }

 private:
  Http2Socket socket_;
};

class SlowUploadTest : public ::testing::TestWithParam<const char*> {};

TEST_P(SlowUploadTest, EndsWhenItsTimeIsOverAndHoldsNobodyUp) {
  InProcessServer server(
      {.threads = 1, .max_message_bytes = 1 << 20, .receive_tick = absl::Milliseconds(10)});
  AttendClient client(server.NewChannel());
  const SlowUploads slow(server.address(), GetParam());
  EXPECT_TRUE(Eventually([&] {
    v1::AttendResponse response;
    EXPECT_TRUE(client.Attend(DemoRequest(SeededTensor(1, Dtype::kF32, {2, 512})), &response).ok());
    return client.Statistics().failed() >= kStreams;
  }));
}

INSTANTIATE_TEST_SUITE_P(Methods, SlowUploadTest,
                         ::testing::Values("/attention.v1.AttentionService/Attend",
                                           "/attention.v1.AttentionService/AttendStream",
                                           "/attention.v1.AttentionService/GetModel",
                                           "/inference.GRPCInferenceService/ModelInfer",
                                           "/inference.GRPCInferenceService/ServerLive",
                                           "/grpc.health.v1.Health/Check",
                                           "/grpc.health.v1.Health/Watch",
                                           "/grpc.reflection.v1.ServerReflection/"
                                           "ServerReflectionInfo"),
                         [](const auto& p) {
                           const std::string method = p.param;
                           return method.substr(method.rfind('/') + 1);
                         });

}  // namespace
}  // namespace attention
