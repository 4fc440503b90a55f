#include "server/sockets/connection_acceptor.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/contain.h"
#include "server/observability/log.h"

namespace attention {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// After a failure to accept, for want of files: it would be asked again at once, without end.
constexpr milliseconds kTimeWithoutFiles{200};
// At the limit every connection would look at all.
constexpr milliseconds kTimeBetweenSweeps{100};
constexpr std::chrono::seconds kTimeBetweenWarnings{10};
// Unacknowledged for so long, a connection is over: as gRPC would have it of its own ones.
constexpr int kUserTimeoutMs = 20'000;

uint64_t InodeOf(int file) {
  struct stat status = {};
  return fstat(file, &status) == 0 ? status.st_ino : 0;
}

void SetOptions(int connection) {
  const int on = 1;  // neither is for unix sockets, which refuse them
  setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(connection, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMs, sizeof(kUserTimeoutMs));
}

}  // namespace

bool ConnectionAcceptor::Connection::is_open() const { return InodeOf(file) == inode; }

ConnectionAcceptor::ConnectionAcceptor(std::vector<FileDescriptor> listeners,
                                       int64_t max_connections, Take take)
    : listeners_(std::move(listeners)),
      max_connections_(max_connections),
      take_(std::move(take)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this] { Run(); }) {}

ConnectionAcceptor::~ConnectionAcceptor() {
  eventfd_write(wake_.get(), 1);
  thread_.join();
}

int64_t ConnectionAcceptor::CountOpen() {
  MutexLock lock(mutex_);
  std::erase_if(connections_, [](const Connection& one) { return !one.is_open(); });
  return std::ssize(connections_);
}

int64_t ConnectionAcceptor::refused() const {
  MutexLock lock(mutex_);
  return refused_;
}

void ConnectionAcceptor::Run() {
  std::vector<pollfd> waits = {{wake_.get(), POLLIN, 0}};
  for (const FileDescriptor& listener : listeners_) {
    waits.push_back({listener.get(), POLLIN, 0});
  }
  while (true) {
    poll(waits.data(), waits.size(), -1);
    if (waits[0].revents != 0) {
      return;
    }
    for (size_t i = 1; i < waits.size(); ++i) {
      bool goes_on = false;  // as without files: a connection that failed is closed
      if (waits[i].revents != 0) {
        ContainVoid("accepting a connection", [&] { goes_on = Accept(waits[i].fd); }).IgnoreError();
      }
      if (waits[i].revents != 0 && !goes_on) {
        poll(waits.data(), 1, static_cast<int>(kTimeWithoutFiles.count()));
      }
    }
  }
}

bool ConnectionAcceptor::Accept(int listener) {
  FileDescriptor connection(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (connection.get() < 0) {
    return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
  }
  if (HasRoom()) {
    SetOptions(connection.get());
    {
      MutexLock lock(mutex_);
      connections_.push_back({connection.get(), InodeOf(connection.get())});
    }
    take_(listener, connection.Release());
  }
  return true;
}

bool ConnectionAcceptor::HasRoom() {
  MutexLock lock(mutex_);
  const steady_clock::time_point now = steady_clock::now();
  if (std::ssize(connections_) >= max_connections_ && now - swept_ >= kTimeBetweenSweeps) {
    std::erase_if(connections_, [](const Connection& one) { return !one.is_open(); });
    swept_ = now;
    if (std::ssize(connections_) >= max_connections_ && now - told_ >= kTimeBetweenWarnings) {
      told_ = now;
      Log(LogLevel::kWarning, absl::StrCat("connections are refused: ", max_connections_,
                                           " are open (--max-connections)"));
    }
  }
  const bool has_room = std::ssize(connections_) < max_connections_;
  refused_ += has_room ? 0 : 1;
  return has_room;
}

}  // namespace attention
