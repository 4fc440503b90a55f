// The addresses on which a server listens, and the sockets that it leaves or keeps.
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "gmock/gmock.h"
#include "tests/server/wire_tensors.h"
#include "tests/support/eventually.h"
#include "tests/support/in_process_server.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

v1::AttendRequest ThreeRowRequest() { return DemoRequest(SeededTensor(2, Dtype::kF32, {3, 512})); }

TEST(AddressesTest, ServesOnSeveralAddressesAtOnce) {
  const TempFolder folder;
  const std::string socket = "unix:" + folder.path() + "/attend.sock";
  const auto server = Server::Start({.listen = {"127.0.0.1:0", socket}});
  ASSERT_THAT(server, IsOk());
  EXPECT_THAT((*server)->listening_addresses(), ElementsAre(StartsWith("127.0.0.1:"), socket));
  EXPECT_THAT((*server)->listening_addresses().front(), ::testing::Not("127.0.0.1:0"));
  for (const std::string& address : (*server)->listening_addresses()) {
    const auto channel = grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
    channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::minutes(5));
    AttendClient client(channel);
    v1::AttendResponse response;
    EXPECT_TRUE(client.Attend(ThreeRowRequest(), &response).ok()) << address;
  }
}

TEST(AddressesTest, TakesTheSocketThatAServerHasLeftBehindAndNoOther) {
  const TempFolder folder;
  const std::string path = folder.path() + "/attend.sock";
  const int left = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(left, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  close(left);
  const auto server = Server::Start({.listen = {"unix:" + path}, .admin_listen = ""});
  ASSERT_THAT(server, IsOk());
  EXPECT_THAT(Server::Start({.listen = {"unix:" + path}, .admin_listen = ""}),
              StatusIs(absl::StatusCode::kUnavailable,
                       "--listen: cannot listen on unix:" + path + ": Address already in use"));
}

TEST(AddressesTest, AStartThatFailsLeavesNoSocketBehind) {
  const TempFolder folder;
  const std::string path = folder.path() + "/attend.sock";
  InProcessServer first;
  EXPECT_THAT(Server::Start({.listen = {"unix:" + path, first.address()}, .admin_listen = ""}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("Address already in use")));
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(AddressesTest, ADrainedServerHasRemovedAllItsSockets) {
  const TempFolder folder;
  const auto path = [&](const char* name) { return "unix:" + folder.path() + "/" + name; };
  const auto server = Server::Start({.listen = {path("a")},
                                     .admin_listen = path("b"),
                                     .health_listen = path("c"),
                                     .metrics_listen = path("d")});
  ASSERT_THAT(server, IsOk());
  EXPECT_FALSE(std::filesystem::is_empty(folder.path()));
  (*server)->Drain(absl::ZeroDuration());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(AddressesTest, RefusesAPortThatIsTaken) {
  InProcessServer first;
  EXPECT_THAT(Server::Start({.listen = {first.address()}}),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("--listen: cannot listen on " + first.address())));
}

TEST(AddressesTest, DoesWithoutAnAddressThatNobodyAskedForAndIsTaken) {
  InProcessServer first({.admin_listen = "127.0.0.1:0", .metrics_listen = "127.0.0.1:0"});
  ServerOptions options = {.listen = {"127.0.0.1:0"},
                           .admin_listen = first.server().admin_address(),
                           .is_default_admin_listen = true,
                           .metrics_listen = first.server().metrics_address(),
                           .is_default_metrics_listen = true};
  ::testing::internal::CaptureStderr();
  const auto second = Server::Start(options);
  ASSERT_THAT(second, IsOk());
  EXPECT_EQ((*second)->admin_address(), "");
  EXPECT_EQ((*second)->metrics_address(), "");
  const std::string log = ::testing::internal::GetCapturedStderr();
  for (const std::string& taken :
       {"--admin-listen: cannot listen on " + options.admin_listen,
        "--metrics-listen: cannot listen on " + options.metrics_listen}) {
    EXPECT_THAT(log, HasSubstr(taken));
  }
  options.is_default_admin_listen = false;
  EXPECT_THAT(Server::Start(options), StatusIs(absl::StatusCode::kUnavailable,
                                               StartsWith("--admin-listen: cannot listen on ")));
  options.admin_listen = "";
  options.is_default_metrics_listen = false;
  EXPECT_THAT(Server::Start(options), StatusIs(absl::StatusCode::kUnavailable,
                                               StartsWith("--metrics-listen: cannot listen on ")));
}

TEST(AddressesTest, RefusesAddressesThatAreNone) {
  const std::vector<std::string> addresses = {"8001",        "host:", ":8001",  "127.0.0.1:65536",
                                              "127.0.0.1:x", "unix:", "[::1:5", "::1]:5"};
  for (const std::string& address : addresses) {
    EXPECT_THAT(
        Server::Start({.listen = {address}}),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 "--listen: expected HOST:PORT with a port of 0 to 65535, or unix:/PATH, found " +
                     address));
  }
}

TEST(AddressesTest, RefusesAPathThatIsTooLongForASocket) {
  const std::string path = "/" + std::string(107, 'a');
  EXPECT_THAT(
      Server::Start({.listen = {"unix:" + path}}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               "--listen: expected unix:/PATH of at most 107 bytes, found 108 bytes in " + path));
}

TEST(AddressesTest, KeepsAFileThatIsNoSocket) {
  const TempFolder folder;
  const std::string path = folder.path() + "/notes";
  std::ofstream(path) << "kept";
  EXPECT_THAT(Server::Start({.listen = {"unix:" + path}, .admin_listen = ""}),
              StatusIs(absl::StatusCode::kUnavailable,
                       "--listen: cannot listen on unix:" + path +
                           ": expected a socket or nothing at this path, found another file"));
  std::string text;
  std::ifstream(path) >> text;
  EXPECT_EQ(text, "kept");
}

TEST(AddressesTest, LeavesTheSocketOfItsSuccessor) {
  const TempFolder folder;
  const std::string socket = "unix:" + folder.path() + "/attend.sock";
  const auto channel_to = [&socket] {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(socket, grpc::InsecureChannelCredentials(), arguments);
  };
  ServerOptions options = {.listen = {socket}, .admin_listen = ""};
  options.drain_delay = absl::Minutes(5);
  const auto first = Server::Start(options);
  ASSERT_THAT(first, IsOk());
  std::optional<AttendClient> client(channel_to());
  v1::AttendResponse response;
  ASSERT_TRUE(client->Attend(ThreeRowRequest(), &response).ok());
  std::thread drain([&] { (*first)->Drain(absl::ZeroDuration()); });
  EXPECT_TRUE(Eventually([&] { return !std::filesystem::exists(folder.path() + "/attend.sock"); }));
  const auto second = Server::Start(options);
  ASSERT_THAT(second, IsOk());
  client.reset();  // the last connection, whose end lets the first server end
  drain.join();
  AttendClient next(channel_to());
  EXPECT_TRUE(next.Attend(ThreeRowRequest(), &response).ok());
}

TEST(AddressesTest, LeavesASocketThatHasTakenThePlaceOfItsOwn) {
  const TempFolder folder;
  const std::string path = folder.path() + "/attend.sock";
  const ServerOptions options = {.listen = {"unix:" + path}, .admin_listen = ""};
  const auto first = Server::Start(options);
  ASSERT_THAT(first, IsOk());
  std::filesystem::remove(path);
  const auto second = Server::Start(options);
  ASSERT_THAT(second, IsOk());
  (*first)->Shutdown(absl::ZeroDuration());
  AttendClient client(grpc::CreateChannel("unix:" + path, grpc::InsecureChannelCredentials()));
  v1::AttendResponse response;
  EXPECT_TRUE(client.Attend(ThreeRowRequest(), &response).ok());
  (*second)->Shutdown(absl::ZeroDuration());
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace attention
