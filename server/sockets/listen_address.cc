#include "server/sockets/listen_address.h"

#include <arpa/inet.h>
#include <sys/un.h>

#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/runtime/prefixed.h"

namespace attention {
namespace {

constexpr std::string_view kUnixScheme = "unix:";
constexpr int kMaxPort = 65535;
// The system appends a zero.
constexpr size_t kMaxUnixPathBytes = sizeof(sockaddr_un::sun_path) - 1;

// Returns "::1" for "[::1]", as a resolver needs it.
std::string WithoutBrackets(const std::string& host) {
  return host.size() > 2 && host.front() == '[' && host.back() == ']'
             ? host.substr(1, host.size() - 2)
             : host;
}

}  // namespace

absl::StatusOr<ListenAddress> ParseListenAddress(const std::string& text) {
  if (text.starts_with(kUnixScheme) && text.size() > kUnixScheme.size()) {
    const std::string path = text.substr(kUnixScheme.size());
    if (path.size() > kMaxUnixPathBytes) {
      return absl::InvalidArgumentError(absl::StrCat("expected unix:/PATH of at most ",
                                                     kMaxUnixPathBytes, " bytes, found ",
                                                     path.size(), " bytes in ", path));
    }
    return ListenAddress{.host = {}, .path = path};
  }
  const size_t colon = text.rfind(':');
  int port = -1;
  if (colon == std::string::npos || colon == 0 ||
      text.starts_with('[') != (text[colon - 1] == ']') ||
      !absl::SimpleAtoi(text.substr(colon + 1), &port) || port < 0 || port > kMaxPort) {
    return absl::InvalidArgumentError(absl::StrCat("expected HOST:PORT with a port of 0 to ",
                                                   kMaxPort, ", or unix:/PATH, found ",
                                                   text.empty() ? "an empty text" : text));
  }
  return ListenAddress{.host = WithoutBrackets(text.substr(0, colon)), .port = port, .path = {}};
}

absl::Status CheckAddress(const std::string& flag, const std::string& text) {
  return Prefixed(flag, ParseListenAddress(text).status());
}

bool IsLocal(const std::string& text) {
  const absl::StatusOr<ListenAddress> address = ParseListenAddress(text);
  if (!address.ok() || address->is_unix()) {
    return address.ok();
  }
  in_addr ipv4 = {};
  return address->host == "localhost" || address->host == "::1" ||
         (inet_pton(AF_INET, address->host.c_str(), &ipv4) == 1 && ntohl(ipv4.s_addr) >> 24 == 127);
}

}  // namespace attention
