// What systemd hears of a server that it starts with Type=notify.
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "tests/e2e/programs.h"

namespace attention {
namespace {

/// The manager's end, which programs started while it lives find in their environment.
class NotifySocket {
 public:
  NotifySocket() {
    const std::string path = folder_.path() + "/notify";
    sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0) << path;
    setenv("NOTIFY_SOCKET", path.c_str(), 1);
  }
  ~NotifySocket() {
    unsetenv("NOTIFY_SOCKET");
    close(fd_);
  }
  NotifySocket(const NotifySocket&) = delete;
  NotifySocket& operator=(const NotifySocket&) = delete;

  /// The next message, waited for; empty when none comes.
  std::string Next() const {
    pollfd waiting = {.fd = fd_, .events = POLLIN, .revents = 0};
    if (poll(&waiting, 1, static_cast<int>(kPatience.count())) != 1) {
      return "";
    }
    char text[4096];
    const ssize_t size = recv(fd_, text, sizeof(text), 0);
    return {text, static_cast<size_t>(std::max<ssize_t>(size, 0))};
  }

 private:
  const TempFolder folder_;
  const int fd_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
};

TEST(ServiceManagerTest, HearsOfLoadingOfReadinessAndOfTheEnd) {
  const NotifySocket manager;
  ServerProcess server({std::string("--models=") + kCheckpoints, "--drain-delay=2m"});
  EXPECT_EQ(manager.Next(), "STATUS=loading models");
  EXPECT_EQ(manager.Next(), "READY=1\nSTATUS=serving on " + server.address());
  const Outcome health = RunAttend({"health", "--server=" + server.address()});
  EXPECT_EQ(health.exit_code, 0) << health.err;
  server.process().Signal(SIGTERM);
  // drain_delay, grace_period and 10 s: the server is not killed before.
  EXPECT_EQ(manager.Next(), "STOPPING=1\nEXTEND_TIMEOUT_USEC=160000000\nSTATUS=draining");
  EXPECT_EQ(server.process().WaitForExit(kPatience), 0) << server.process().err();
}

}  // namespace
}  // namespace attention
