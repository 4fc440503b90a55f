#include "server/observability/listening_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// "[::1]" as a resolver takes it: "::1".
std::string WithoutBrackets(const std::string& host) {
  return host.size() > 2 && host.front() == '[' && host.back() == ']'
             ? host.substr(1, host.size() - 2)
             : host;
}

absl::Status CannotListen(const std::string& address, const std::string& why) {
  return absl::UnavailableError(absl::StrCat("cannot listen on ", address, ": ", why));
}

absl::StatusOr<AddressList> Resolve(const std::string& address, size_t colon) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(WithoutBrackets(address.substr(0, colon)).c_str(),
                                address.substr(colon + 1).c_str(), &hints, &found);
  if (error != 0) {
    return CannotListen(address, gai_strerror(error));
  }
  return AddressList(found, &freeaddrinfo);
}

int PortOf(int socket) {
  sockaddr_storage bound = {};
  socklen_t size = sizeof(bound);
  getsockname(socket, reinterpret_cast<sockaddr*>(&bound), &size);
  // The port stands at the same place for both families.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&bound)->sin_port);
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (number_ >= 0) {
    close(number_);
  }
}

absl::StatusOr<ListeningSocket> ListenOn(const std::string& address) {
  const size_t colon = address.rfind(':');
  int port = -1;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 0 || port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected HOST:PORT with a port of 0 to 65535, found ", address));
  }
  ASSIGN_OR_RETURN(const AddressList found, Resolve(address, colon));
  FileDescriptor listener(socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;  // what a server that ended a moment ago has left does not keep this one out
  if (listener.get() < 0 ||
      setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      bind(listener.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      listen(listener.get(), SOMAXCONN) != 0) {
    return CannotListen(address, std::strerror(errno));
  }
  const std::string bound = absl::StrCat(address.substr(0, colon), ":", PortOf(listener.get()));
  return ListeningSocket{std::move(listener), bound};
}

}  // namespace attention
