#include "server/sockets/listening_socket.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <barrier>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

class UnixSocketTest : public ::testing::Test {
 protected:
  const TempFolder folder_;
  const std::string path_ = folder_.path() + "/a.sock";
  const std::string address_ = "unix:" + path_;

  /// Puts a socket at the path on which nobody listens, as a server leaves it that was killed.
  void LeaveSocket() const {
    const FileDescriptor left(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
    path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
    ASSERT_EQ(bind(left.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }
};

TEST_F(UnixSocketTest, OneOfManyServersReplacesASocketThatWasLeftBehind) {
  constexpr int kServers = 4;
  for (int round = 0; round < 200; ++round) {
    LeaveSocket();
    std::atomic<int> listening = 0;
    std::barrier together(kServers);
    std::vector<std::thread> servers;
    for (int i = 0; i < kServers; ++i) {
      servers.emplace_back([&] {
        together.arrive_and_wait();
        const auto sockets = ListenOn(address_);
        listening += sockets.ok() ? 1 : 0;
        together.arrive_and_wait();
        EXPECT_TRUE(std::filesystem::exists(path_)) << "the file of the one that listens";
        together.arrive_and_wait();
      });
    }
    for (std::thread& server : servers) {
      server.join();
    }
    ASSERT_EQ(listening, 1);
    ASSERT_FALSE(std::filesystem::exists(path_));
  }
}

TEST_F(UnixSocketTest, AFolderThatSomebodyHasLockedIsNotWaitedForLong) {
  const FileDescriptor lock(open(folder_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(flock(lock.get(), LOCK_EX), 0);
  EXPECT_THAT(ListenOn(address_), IsOk());
}

TEST_F(UnixSocketTest, WhatHasTakenThePlaceOfTheFileStays) {
  {
    const auto listening = ListenOn(address_);
    ASSERT_THAT(listening, IsOk());
    std::filesystem::remove(path_);
    std::ofstream(path_) << "kept";
  }
  EXPECT_TRUE(std::filesystem::exists(path_));
}

// By one name, callers would reach two servers.
TEST(ListeningSocketTest, ANameWithAnAddressThatIsTakenIsRefused) {
  const auto both = ListenOn("localhost:0");
  if (!both.ok() || both->sockets.size() < 2) {
    GTEST_SKIP() << "localhost has no two addresses here";
  }
  const auto taken = ListenOn("127.0.0.1:0");
  ASSERT_THAT(taken, IsOk());
  const std::string address = "localhost:" + taken->address.substr(taken->address.rfind(':') + 1);
  EXPECT_THAT(ListenOn(address), StatusIs(absl::StatusCode::kUnavailable,
                                          ::testing::EndsWith("already in use (127.0.0.1)")));
}

}  // namespace
}  // namespace attention
