// What the client says when there is no server, or one that does not answer.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/lib/attention_client.h"
#include "gmock/gmock.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

using ::testing::HasSubstr;

/// A port of this machine that is bound; connections wait unanswered if it listens, and are refused
/// if not.
class SilentPort {
 public:
  explicit SilentPort(bool listens) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    if (listens) {
      EXPECT_EQ(listen(socket_, 16), 0);
    }
  }
  ~SilentPort() { close(socket_); }
  SilentPort(const SilentPort&) = delete;
  SilentPort& operator=(const SilentPort&) = delete;

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

 private:
  int socket_;
  uint16_t port_ = 0;
};

std::unique_ptr<AttentionClient> ClientFor(const std::string& server, absl::Duration timeout) {
  auto client = AttentionClient::Connect(
      {.connection = {.server = server, .retries = false}, .timeout = timeout});
  EXPECT_THAT(client, IsOk());
  return *std::move(client);
}

AttendRequest SomeRequest() {
  AttendRequest request;
  request.model = "demo";
  request.input = TokenIdsInput{{1, 2, 3}, {}};
  return request;
}

TEST(UnreachableServerTest, NamesTheAddressThatWasTried) {
  const SilentPort port(/*listens=*/false);
  const auto client = ClientFor(port.address(), absl::Minutes(2));
  const auto refused =
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr(absl::StrCat("server ", port.address())));
  EXPECT_THAT(client->Attend(SomeRequest()), refused);
  EXPECT_THAT(client->AttendStream(SomeRequest(), {}), refused);
  EXPECT_THAT(client->ListModels(), refused);
  EXPECT_THAT(client->GetModel("demo"), refused);
  EXPECT_THAT(client->CheckHealth(""), refused);
  EXPECT_THAT(client->WaitUntilReady("", absl::Milliseconds(50)),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr(port.address())));
}

TEST(UnreachableServerTest, NamesTheSocketThatWasTried) {
  const TempFolder folder;
  const std::string address = absl::StrCat("unix:", folder.path(), "/absent.sock");
  EXPECT_THAT(ClientFor(address, absl::Minutes(2))->CheckHealth(""),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr(address)));
}

TEST(UnreachableServerTest, GivesUpAtTheDeadline) {
  const SilentPort port(/*listens=*/true);
  const auto client = ClientFor(port.address(), absl::Milliseconds(200));
  const auto late =
      StatusIs(absl::StatusCode::kDeadlineExceeded,
               HasSubstr(absl::StrCat("server ", port.address(), ": no answer within 200ms")));
  EXPECT_THAT(client->Attend(SomeRequest()), late);
  EXPECT_THAT(client->AttendStream(SomeRequest(), {}), late);
}

TEST(UnreachableServerTest, RefusesOptionsThatMakeNoSense) {
  EXPECT_THAT(AttentionClient::Connect({.connection = {.server = ""}, .timeout = absl::Seconds(1)}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("host:port")));
  for (const absl::Duration timeout : {absl::ZeroDuration(), absl::Seconds(-1),
                                       absl::Hours(24 * 365 + 1), absl::InfiniteDuration()}) {
    EXPECT_THAT(
        AttentionClient::Connect({.connection = {.server = "localhost:1"}, .timeout = timeout}),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("timeout: expected a positive")));
  }
}

}  // namespace
}  // namespace attention
