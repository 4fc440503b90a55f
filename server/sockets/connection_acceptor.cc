#include "server/sockets/connection_acceptor.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/runtime/contain.h"
#include "server/log/log.h"
#include "server/sockets/connection_limit.h"
#include "server/sockets/sent_bytes.h"

namespace attention {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// The minimum time between two checks of all connections. Without it, every new connection at the
// limit would cause one.
constexpr milliseconds kTimeBetweenSweeps{100};
// A connection whose data is not acknowledged for this time ends, as gRPC's own connections do.
constexpr int kUserTimeoutMs = 20'000;

// The time between two looks at what has arrived.
constexpr milliseconds kTimeBetweenLooks{5};

// The maximum number of connections that wait. Further ones that would have to wait are closed.
constexpr int64_t kMaxWaitingConnections = 512;
// The connections of this process that were closed since too many waited.
std::atomic<int64_t> turned_away_count = 0;

// The connections of this process that were ended because of their calls.
std::atomic<int64_t> ended_count = 0;

// The time between two attempts to pass waiting connections on.
constexpr int kRetryMs = 2;

bool HasLeft(int connection) {
  pollfd wait = {connection, POLLRDHUP, 0};
  return poll(&wait, 1, 0) != 0;
}

uint64_t InodeOf(int file) {
  struct stat status = {};
  return fstat(file, &status) == 0 ? status.st_ino : 0;
}

FileDescriptor MakeEvent() {
  FileDescriptor event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (event.get() < 0) {
    throw std::system_error(errno, std::generic_category(), "eventfd");
  }
  return event;
}

void SetOptions(int connection) {
  const int on = 1;  // unix sockets refuse both options, and need neither
  setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(connection, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMs, sizeof(kUserTimeoutMs));
}

}  // namespace

bool ConnectionAcceptor::Warning::IsDue() {
  const steady_clock::time_point now = steady_clock::now();
  if (now - last_ < kTimeBetweenWarnings) {
    return false;
  }
  last_ = now;
  return true;
}

bool ConnectionAcceptor::Connection::is_open() const { return InodeOf(file) == inode; }

ConnectionAcceptor::ConnectionAcceptor(std::vector<FileDescriptor> listeners,
                                       int64_t max_connections, ConnectionPace& pace, Take take)
    : listeners_(std::move(listeners)),
      max_connections_(ConnectionsWithinOwnLimit(max_connections)),
      pace_(pace),
      take_(std::move(take)),
      wake_(MakeEvent()),
      thread_([this] { Run(); }) {
  pace_.set_end_connection([this](const std::string& peer) { End(peer); });
}

ConnectionAcceptor::~ConnectionAcceptor() {
  pace_.set_end_connection(nullptr);
  Stop();
}

void ConnectionAcceptor::Stop() {
  if (thread_.joinable()) {
    eventfd_write(wake_.get(), 1);
    thread_.join();
    listeners_.clear();
    waiting_.clear();
  }
}

bool ConnectionAcceptor::AwaitSent(steady_clock::time_point end) {
  struct Awaited {
    Connection connection;
    int64_t bytes = 0;  // all that it had sent when the wait began
  };
  std::vector<Awaited> awaited;
  {
    MutexLock lock(mutex_);
    for (const Connection& one : connections_) {
      const SentBytes sent = SentBytesOf(one.file);
      awaited.push_back({one, sent.arrived + sent.under_way});
    }
  }
  const auto has_arrived = [](const Awaited& one) {
    const SentBytes sent = SentBytesOf(one.connection.file);
    return sent.under_way == 0 || (sent.arrived > 0 && sent.arrived >= one.bytes) ||
           !one.connection.is_open();
  };
  while (true) {
    std::erase_if(awaited, has_arrived);
    if (awaited.empty() || steady_clock::now() >= end) {
      return awaited.empty();
    }
    std::this_thread::sleep_for(kTimeBetweenLooks);
  }
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

int64_t ConnectionAcceptor::turned_away() { return turned_away_count; }

int64_t ConnectionAcceptor::ended() { return ended_count; }

void ConnectionAcceptor::End(const std::string& peer) {
  MutexLock lock(mutex_);
  for (const Connection& one : connections_) {
    if (const Peer other = PeerOfConnection(one.file);
        other.port == PortOf(peer) && other.host == HostOf(peer) && one.is_open()) {
      shutdown(one.file, SHUT_RDWR);
      ++ended_count;
      if (end_warning_.IsDue()) {
        Log(LogLevel::kWarning,
            absl::StrCat("a connection was ended, since it made more than ",
                         ConnectionPace::kFloodTimes,
                         " times as many calls without work as a host may make, for ",
                         ConnectionPace::kFloodSeconds, " s: ", peer));
      }
    }
  }
}

int64_t ConnectionAcceptor::delayed() const {
  MutexLock lock(mutex_);
  return delayed_;
}

void ConnectionAcceptor::Run() {
  std::vector<pollfd> waits = {{wake_.get(), POLLIN, 0}};
  for (const FileDescriptor& listener : listeners_) {
    waits.push_back({listener.get(), POLLIN, 0});
  }
  while (true) {
    poll(waits.data(), waits.size(), waiting_.empty() ? -1 : kRetryMs);
    if (waits[0].revents != 0) {
      return;
    }
    ContainVoid("passing connections on", [&] { PassWaiting(); }).IgnoreError();
    for (size_t i = 0; i < listeners_.size(); ++i) {
      if (waits[1 + i].revents == 0) {
        continue;
      }
      bool succeeded = false;  // stays false when memory is exhausted: the connection is closed
      ContainVoid("accepting a connection", [&] {
        succeeded = Accept(listeners_[i]);
      }).IgnoreError();
      if (!succeeded) {
        poll(waits.data(), 1, static_cast<int>(kPauseAfterFailure.count()));
      }
    }
  }
}

bool ConnectionAcceptor::Accept(const FileDescriptor& listener) {
  Accepted accepted = AcceptConnection(listener);
  const int connection = accepted.connection.get();
  if (connection >= 0 && HasRoom()) {
    SetOptions(connection);
    {
      MutexLock lock(mutex_);
      connections_.push_back({connection, InodeOf(connection)});
    }
    PassOrHold({listener.get(), std::move(accepted.connection), PeerOfConnection(connection)});
  }
  if (accepted.error != 0 && failure_warning_.IsDue()) {
    Log(LogLevel::kWarning, absl::StrCat("connections wait, since the system cannot accept them: ",
                                         std::generic_category().message(accepted.error)));
  }
  return accepted.error == 0;
}

void ConnectionAcceptor::PassOrHold(Waiting accepted) {
  const int64_t of_host = std::ranges::count_if(
      waiting_, [&](const Waiting& other) { return other.from.host == accepted.from.host; });
  if (of_host == 0 && pace_.Take(accepted.from.host, accepted.from.port)) {
    take_(accepted.listener, std::move(accepted.connection));
    return;
  }
  // A host may have as many waiting connections as it leaves free: the rule of FairBudget.
  if (of_host >= kMaxWaitingConnections - std::ssize(waiting_)) {
    TurnAway(accepted.from.host, of_host);
    return;
  }
  waiting_.push_back(std::move(accepted));
  MutexLock lock(mutex_);
  ++delayed_;
}

void ConnectionAcceptor::TurnAway(const std::string& host, int64_t waiting_of_host) {
  if (turn_warning_.IsDue()) {
    Log(LogLevel::kWarning, absl::StrCat("connections of ", host, " are refused: ", waiting_of_host,
                                         " of it wait, of ", std::ssize(waiting_),
                                         " in all (a host waits when it makes many calls without "
                                         "work, or opens connections without a call)"));
  }
  ++turned_away_count;
}

void ConnectionAcceptor::PassWaiting() {
  if (const steady_clock::time_point now = steady_clock::now();
      now - last_look_ >= kTimeBetweenSweeps) {
    last_look_ = now;
    waiting_.remove_if([](const Waiting& one) { return HasLeft(one.connection.get()); });
  }
  absl::flat_hash_set<std::string> must_wait;  // hosts whose earlier connection waits on
  for (auto one = waiting_.begin(); one != waiting_.end();) {
    const auto next = std::next(one);
    if (must_wait.contains(one->from.host)) {
      // It comes after that one, and costs no look until then.
    } else if (HasLeft(one->connection.get())) {
      waiting_.erase(one);
    } else if (!pace_.Take(one->from.host, one->from.port)) {
      must_wait.insert(one->from.host);
    } else {
      Waiting passed = std::move(*one);
      waiting_.erase(one);
      take_(passed.listener, std::move(passed.connection));
    }
    one = next;
  }
}

bool ConnectionAcceptor::HasRoom() {
  MutexLock lock(mutex_);
  const steady_clock::time_point now = steady_clock::now();
  if (std::ssize(connections_) >= max_connections_ && now - last_sweep_ >= kTimeBetweenSweeps) {
    std::erase_if(connections_, [](const Connection& one) { return !one.is_open(); });
    last_sweep_ = now;
    if (std::ssize(connections_) >= max_connections_ && refusal_warning_.IsDue()) {
      Log(LogLevel::kWarning,
          absl::StrCat("connections are refused: ", max_connections_,
                       " are open (--max-connections, or the limit of open files)"));
    }
  }
  const bool has_room = std::ssize(connections_) < max_connections_;
  refused_ += has_room ? 0 : 1;
  return has_room;
}

}  // namespace attention
