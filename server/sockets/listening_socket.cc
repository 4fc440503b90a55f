#include "server/sockets/listening_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

constexpr char kUnixPrefix[] = "unix:";

struct SocketAddress {
  sockaddr_storage bytes = {};
  socklen_t size = 0;

  int family() const { return bytes.ss_family; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&bytes); }
  // The port stands at the same place for both families.
  uint16_t& port() { return reinterpret_cast<sockaddr_in*>(&bytes)->sin_port; }
};

// "[::1]" as a resolver takes it: "::1".
std::string WithoutBrackets(const std::string& host) {
  return host.size() > 2 && host.front() == '[' && host.back() == ']'
             ? host.substr(1, host.size() - 2)
             : host;
}

absl::Status CannotListen(const std::string& address, const std::string& why) {
  return absl::UnavailableError(absl::StrCat("cannot listen on ", address, ": ", why));
}

absl::StatusOr<std::vector<SocketAddress>> Resolve(const std::string& address, size_t colon) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(WithoutBrackets(address.substr(0, colon)).c_str(),
                                address.substr(colon + 1).c_str(), &hints, &found);
  if (error != 0) {
    return CannotListen(address, gai_strerror(error));
  }
  const AddressList list(found, &freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    SocketAddress& own = addresses.emplace_back();
    std::memcpy(&own.bytes, one->ai_addr, one->ai_addrlen);
    own.size = one->ai_addrlen;
  }
  return addresses;
}

bool IsIpv4Wildcard(const SocketAddress& address) {
  return address.family() == AF_INET &&
         reinterpret_cast<const sockaddr_in*>(&address.bytes)->sin_addr.s_addr == INADDR_ANY;
}

// [::], which with IPV6_V6ONLY off takes connections of IPv4 too.
SocketAddress BothFamilies(SocketAddress ipv4) {
  SocketAddress both;
  both.bytes.ss_family = AF_INET6;
  both.size = sizeof(sockaddr_in6);
  both.port() = ipv4.port();
  return both;
}

// Its number is negative, and errno says why, when it cannot be.
FileDescriptor TryListen(const SocketAddress& address) {
  FileDescriptor listener(socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (listener.get() < 0) {
    return listener;
  }
  const int on = 1, off = 0;
  if (address.family() != AF_UNIX) {
    // What a server that ended a moment ago has left does not keep this one out.
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

absl::StatusOr<ListeningSockets> ListenOnHost(const std::string& address, size_t colon) {
  ASSIGN_OR_RETURN(std::vector<SocketAddress> addresses, Resolve(address, colon));
  ListeningSockets listening;
  int error = 0;
  uint16_t port = 0;
  for (SocketAddress& one : addresses) {
    if (one.port() == 0) {
      one.port() = port;  // the one that was chosen for the first
    }
    FileDescriptor listener = IsIpv4Wildcard(one) ? TryListenOnWildcard(one) : TryListen(one);
    if (listener.get() < 0) {
      error = errno;
      continue;
    }
    port = PortOf(listener);
    listening.sockets.push_back(std::move(listener));
  }
  if (listening.sockets.empty()) {
    return CannotListen(address, std::strerror(error));
  }
  listening.address = absl::StrCat(address.substr(0, colon), ":", ntohs(port));
  return listening;
}

// Whether the path is a socket that nobody listens on any more.
bool IsLeftBehind(const SocketAddress& address) {
  const FileDescriptor probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return connect(probe.get(), address.get(), address.size) != 0 && errno == ECONNREFUSED;
}

absl::StatusOr<ListeningSockets> ListenOnPath(const std::string& address) {
  const std::string path = address.substr(std::strlen(kUnixPrefix));
  SocketAddress own;
  auto& name = reinterpret_cast<sockaddr_un&>(own.bytes);
  if (path.size() >= sizeof(name.sun_path)) {
    return CannotListen(address,
                        absl::StrCat("expected a path of at most ", sizeof(name.sun_path) - 1,
                                     " bytes, found ", path.size()));
  }
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, path.data(), path.size());
  own.size = sizeof(name);
  FileDescriptor listener = TryListen(own);
  if (listener.get() < 0 && errno == EADDRINUSE && IsLeftBehind(own)) {
    unlink(path.c_str());
    listener = TryListen(own);
  }
  if (listener.get() < 0) {
    return CannotListen(address, std::strerror(errno));
  }
  ListeningSockets listening{.sockets = {}, .address = address};
  listening.sockets.push_back(std::move(listener));
  return listening;
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (number_ >= 0) {
    close(number_);
  }
}

absl::StatusOr<ListeningSockets> ListenOn(const std::string& address) {
  if (absl::StartsWith(address, kUnixPrefix)) {
    return ListenOnPath(address);
  }
  const size_t colon = address.rfind(':');
  int port = -1;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 0 || port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected HOST:PORT with a port of 0 to 65535, found ", address));
  }
  return ListenOnHost(address, colon);
}

}  // namespace attention
