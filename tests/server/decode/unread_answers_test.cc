// Streams whose clients send many actions and take no answer, or take them late.
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "tests/server/decode/decode_stream.h"
#include "tests/server/http2_bytes.h"
#include "tests/support/eventually.h"
#include "tests/support/in_process_server.h"

namespace attention {
namespace {

constexpr int kActions = 200;

/// An action as a message of gRPC.
std::string ActionMessage() {
  v1::DecodeRequest action = TruncateTo(0);
  action.set_id(1);
  const std::string bytes = action.SerializeAsString();
  return std::string(4, '\0') + static_cast<char>(bytes.size()) + bytes;
}

// Each is refused at once, as the stream has no session.
TEST(UnreadAnswersTest, FewActionsAreReadWhileNoAnswerIsTaken) {
  constexpr int kMaxUnsent = 8;
  InProcessServer server;
  AttendClient client(server.NewChannel());
  {
    Http2Socket deaf(server.address());
    std::string messages;
    for (int i = 0; i < kActions; ++i) {
      messages += ActionMessage();
    }
    // The client has no room for any data, only for headers.
    deaf.Send(Frame(4, 0, 0, std::string("\0\x04\0\0\0\0", 6)) +
              Frame(1, 4, 1, CallHeaders("/attention.v1.AttentionService/Decode")) +
              Frame(0, 0, 1, messages));
    deaf.ReceiveUntil("application/grpc");  // with the first answer
    for (int i = 0; i < 100; ++i) {
      client.Statistics();  // the server has had the time to read all
    }
  }
  ASSERT_TRUE(Eventually([&] { return client.Statistics().failed() > 0; }));
  for (int i = 0; i < 100; ++i) {
    EXPECT_LE(client.Statistics().failed(), kMaxUnsent);
  }
}

// The server would end the stream by itself, once its last answer is taken.
TEST(UnreadAnswersTest, ARefusedStreamWhoseAnswersAreNotTakenIsIdle) {
  InProcessServer server({.session_idle_timeout = absl::Milliseconds(100)});
  AttendClient client(server.NewChannel());
  Http2Socket deaf(server.address());
  const std::string wrong = std::string("\1\0\0\0\3", 5) + "bad";  // said to be compressed
  deaf.Send(Frame(4, 0, 0, std::string("\0\x04\0\0\0\0", 6)) +
            Frame(1, 4, 1, CallHeaders("/attention.v1.AttentionService/Decode")) +
            Frame(0, 0, 1, ActionMessage() + wrong));
  EXPECT_TRUE(Eventually([&] { return client.Statistics().failed() > 1; }));
}

TEST(UnreadAnswersTest, AnswersThatAreTakenLateAreCompleteAndInOrder) {
  InProcessServer server;
  DecodeStream stream(server.NewChannel());
  for (int i = 0; i < kActions; ++i) {
    stream.Send(TruncateTo(0));
  }
  for (uint64_t id = 1; id <= kActions; ++id) {
    const std::optional<DecodeAnswer> answer = stream.Read();
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->id, id);
    EXPECT_EQ(answer->code(), absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_TRUE(stream.End().ok());
}

}  // namespace
}  // namespace attention
