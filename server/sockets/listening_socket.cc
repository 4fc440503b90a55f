#include "server/sockets/listening_socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "server/sockets/listen_address.h"

namespace attention {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

struct SocketAddress {
  sockaddr_storage bytes = {};
  socklen_t size = 0;

  int family() const { return bytes.ss_family; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&bytes); }
  // Returns the port, which has the same position for both families.
  uint16_t& port() { return reinterpret_cast<sockaddr_in*>(&bytes)->sin_port; }
  bool operator==(const SocketAddress& other) const {
    return size == other.size && std::memcmp(&bytes, &other.bytes, size) == 0;
  }
};

absl::Status CannotListen(const std::string& address, const std::string& why) {
  return absl::UnavailableError(absl::StrCat("cannot listen on ", address, ": ", why));
}

absl::StatusOr<std::vector<SocketAddress>> Resolve(const std::string& text,
                                                   const ListenAddress& address) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (error != 0) {
    return CannotListen(text, gai_strerror(error));
  }
  const AddressList list(found, &freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    SocketAddress own;
    std::memcpy(&own.bytes, one->ai_addr, one->ai_addrlen);
    own.size = one->ai_addrlen;
    if (std::ranges::find(addresses, own) == addresses.end()) {  // a hosts file may have it twice
      addresses.push_back(own);
    }
  }
  return addresses;
}

// Returns the address of a host in brackets.
std::string NumericHost(const SocketAddress& address) {
  char host[NI_MAXHOST] = "";
  getnameinfo(address.get(), address.size, host, sizeof(host), nullptr, 0, NI_NUMERICHOST);
  return absl::StrCat(" (", host, ")");
}

bool IsIpv4Wildcard(const SocketAddress& address) {
  return address.family() == AF_INET &&
         reinterpret_cast<const sockaddr_in*>(&address.bytes)->sin_addr.s_addr == INADDR_ANY;
}

// Returns [::] with the port. With IPV6_V6ONLY off it accepts connections of IPv4 too.
SocketAddress BothFamilies(SocketAddress ipv4) {
  SocketAddress both;
  both.bytes.ss_family = AF_INET6;
  both.size = sizeof(sockaddr_in6);
  both.port() = ipv4.port();
  return both;
}

// Returns a listening socket. If that fails, its number is negative, and errno gives the reason.
FileDescriptor TryListen(const SocketAddress& address) {
  FileDescriptor listener(socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (listener.get() < 0) {
    return listener;
  }
  const int on = 1, off = 0;
  if (address.family() != AF_UNIX) {
    // Connections of a server that ended a moment ago do not keep this one from the port.
    setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  }
  if (address.family() == AF_INET6) {
    setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  }
  const bool is_listening = bind(listener.get(), address.get(), address.size) == 0 &&
                            listen(listener.get(), SOMAXCONN) == 0;
  return is_listening ? std::move(listener) : FileDescriptor();
}

FileDescriptor TryListenOnWildcard(const SocketAddress& address) {
  FileDescriptor both = TryListen(BothFamilies(address));
  return both.get() >= 0 || errno == EADDRINUSE ? std::move(both) : TryListen(address);
}

uint16_t PortOf(const FileDescriptor& socket) {
  SocketAddress bound;
  bound.size = sizeof(bound.bytes);
  getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound.bytes), &bound.size);
  return bound.port();
}

// Listens on all of the addresses but those that this machine lacks. If one is taken, it listens on
// none: callers would reach two servers by one name.
absl::StatusOr<ListeningSockets> ListenOnAll(const std::string& text,
                                             std::vector<SocketAddress> addresses) {
  ListeningSockets listening;
  int error = 0;
  uint16_t port = 0;
  for (SocketAddress& one : addresses) {
    if (one.port() == 0) {
      one.port() = port;  // the port that was chosen for the first address
    }
    FileDescriptor listener = IsIpv4Wildcard(one) ? TryListenOnWildcard(one) : TryListen(one);
    if (listener.get() >= 0) {
      port = PortOf(listener);
      listening.sockets.push_back(std::move(listener));
      continue;
    }
    error = errno;
    if (error == EADDRINUSE) {
      return CannotListen(
          text, absl::StrCat(std::strerror(error), addresses.size() > 1 ? NumericHost(one) : ""));
    }
  }
  if (listening.sockets.empty()) {
    return CannotListen(text, std::strerror(error));
  }
  listening.address = absl::StrCat(text.substr(0, text.rfind(':')), ":", ntohs(port));
  return listening;
}

absl::StatusOr<ListeningSockets> ListenOnHost(const std::string& text,
                                              const ListenAddress& address) {
  ASSIGN_OR_RETURN(const std::vector<SocketAddress> addresses, Resolve(text, address));
  constexpr int kMostTries = 16;
  for (int tries = 1;; ++tries) {
    absl::StatusOr<ListeningSockets> listening = ListenOnAll(text, addresses);
    // A port that is free on the first address may be taken on the next.
    if (listening.ok() || address.port != 0 || tries == kMostTries) {
      return listening;
    }
  }
}

bool IsSocket(const std::string& path) {
  struct stat status = {};
  const int error = errno;
  const bool is_socket = lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode);
  errno = error;
  return is_socket;
}

// Returns whether the path, a socket, is one that no process listens on any more. Does not wait for
// a process that stands still.
bool IsLeftBehind(const SocketAddress& address) {
  const FileDescriptor probe(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  return connect(probe.get(), address.get(), address.size) != 0 && errno == ECONNREFUSED;
}

// Keeps other servers that start from the folder of `path` until the result is closed: between the
// look at a socket and its removal, another server could have replaced it. Goes on without the lock
// where the folder cannot be opened, or where another program holds its lock for a second.
FileDescriptor LockFolderOf(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path();
  FileDescriptor lock(
      open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; i < 1000 && flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
       ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return lock;
}

// REQUIRES: `path` has at most as many bytes as ParseListenAddress takes.
absl::StatusOr<ListeningSockets> ListenOnPath(const std::string& text, const std::string& path) {
  const FileDescriptor lock = LockFolderOf(path);
  SocketAddress own;
  auto& name = reinterpret_cast<sockaddr_un&>(own.bytes);
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, path.data(), path.size());
  own.size = sizeof(name);
  FileDescriptor listener = TryListen(own);
  if (listener.get() < 0 && errno == EADDRINUSE && !IsSocket(path)) {
    return CannotListen(text, "expected a socket or nothing at this path, found another file");
  }
  if (listener.get() < 0 && errno == EADDRINUSE && IsLeftBehind(own)) {
    unlink(path.c_str());
    listener = TryListen(own);
  }
  if (listener.get() < 0) {
    return CannotListen(text, std::strerror(errno));
  }
  struct stat status = {};
  if (lstat(path.c_str(), &status) != 0) {
    return CannotListen(text, std::strerror(errno));
  }
  ListeningSockets listening;
  listening.sockets.push_back(std::move(listener));
  listening.file.emplace(path, status.st_dev, status.st_ino);
  listening.address = text;
  return listening;
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (number_ >= 0) {
    close(number_);
  }
}

SocketFile::~SocketFile() {
  struct stat status = {};
  if (!path_.empty() && lstat(path_.c_str(), &status) == 0 && status.st_dev == device_ &&
      status.st_ino == inode_) {
    unlink(path_.c_str());
  }
}

Accepted AcceptConnection(const FileDescriptor& listener) {
  FileDescriptor connection(
      accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (connection.get() >= 0) {
    return {std::move(connection), 0};
  }
  // An error of the network is one of the connection that was waiting: accept(2).
  static constexpr int kNoneWaiting[] = {EAGAIN,       EINTR,       ECONNABORTED, EPROTO,
                                         ENETDOWN,     ENOPROTOOPT, EHOSTDOWN,    ENONET,
                                         EHOSTUNREACH, EOPNOTSUPP,  ENETUNREACH};
  const int error = errno;
  return {std::move(connection), std::ranges::count(kNoneWaiting, error) > 0 ? 0 : error};
}

absl::StatusOr<ListeningSockets> ListenOn(const std::string& address) {
  ASSIGN_OR_RETURN(const ListenAddress parsed, ParseListenAddress(address));
  return parsed.is_unix() ? ListenOnPath(address, parsed.path) : ListenOnHost(address, parsed);
}

}  // namespace attention
