#include "server/security/listen_address.h"

#include <arpa/inet.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace attention {
namespace {

bool IsUnix(const std::string& address) { return absl::StartsWith(address, "unix:"); }

}  // namespace

absl::Status CheckAddress(const std::string& flag, const std::string& address) {
  const size_t colon = address.rfind(':');
  int port = -1;
  const bool is_unix = IsUnix(address) && address.size() > 5;
  const bool is_host_port = colon != std::string::npos && colon > 0 &&
                            absl::SimpleAtoi(address.substr(colon + 1), &port) && port >= 0 &&
                            port <= 65535;
  if (!is_unix && !is_host_port) {
    return absl::InvalidArgumentError(absl::StrCat(
        flag, ": expected HOST:PORT with a port of 0 to 65535, or unix:/PATH, found ", address));
  }
  return absl::OkStatus();
}

bool IsLocal(const std::string& address) {
  if (IsUnix(address)) {
    return true;
  }
  const std::string host = address.substr(0, address.rfind(':'));
  in_addr ipv4 = {};
  return host == "localhost" || host == "[::1]" ||
         (inet_pton(AF_INET, host.c_str(), &ipv4) == 1 && ntohl(ipv4.s_addr) >> 24 == 127);
}

}  // namespace attention
