// Messages that begin and do not go on: bytes on the wire, as no gRPC client would send them.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "absl/strings/numbers.h"
#include "gmock/gmock.h"
#include "tests/server/wire_tensors.h"
#include "tests/support/eventually.h"
#include "tests/support/in_process_server.h"

namespace attention {
namespace {

constexpr int kStreams = 20;

std::string Frame(char kind, char flags, uint32_t stream, const std::string& payload) {
  const size_t size = payload.size();
  std::string frame;
  for (const uint64_t byte : {size >> 16, size >> 8, size}) {
    frame.push_back(static_cast<char>(byte));
  }
  frame += {kind, flags};
  for (const int shift : {24, 16, 8, 0}) {
    frame.push_back(static_cast<char>(stream >> shift));
  }
  return frame + payload;
}

// A header that enters no table.
std::string Header(const std::string& name, const std::string& value) {
  return std::string(1, '\0') + static_cast<char>(name.size()) + name +
         static_cast<char>(value.size()) + value;
}

std::string CallHeaders(const std::string& path) {
  return "\x83\x86" + Header(":path", path) + Header(":authority", "localhost") +
         Header("content-type", "application/grpc") + Header("te", "trailers");
}

/// A connection whose calls each begin a message of 1 MiB and send a byte of it.
class SlowUploads {
 public:
  SlowUploads(const std::string& address, const std::string& path)
      : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    int port = 0;
    EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
    std::string bytes = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(4, 0, 0, "");
    for (uint32_t stream = 1; stream < 2 * kStreams; stream += 2) {
      bytes += Frame(1, 4, stream, CallHeaders(path));
      bytes += Frame(0, 0, stream, std::string("\0\0\x10\0\0", 5) + "\x0a");
    }
    EXPECT_EQ(send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  ~SlowUploads() { close(socket_); }

 private:
  const int socket_;
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
    return client.Statistics().refused() >= kStreams;
  }));
}

INSTANTIATE_TEST_SUITE_P(Methods, SlowUploadTest,
                         ::testing::Values("/attention.v1.AttentionService/Attend",
                                           "/attention.v1.AttentionService/AttendStream",
                                           "/attention.v1.AttentionService/GetModel",
                                           "/inference.GRPCInferenceService/ModelInfer",
                                           "/inference.GRPCInferenceService/ServerLive",
                                           "/grpc.health.v1.Health/Check",
                                           "/grpc.health.v1.Health/Watch"));

}  // namespace
}  // namespace attention
