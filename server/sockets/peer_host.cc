#include "server/sockets/peer_host.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace attention {
namespace {

constexpr size_t kNetworkBytes = 8;
// The bytes before the IPv4 address in an IPv6 address that stands for one.
constexpr size_t kMappedBytes = 12;

std::string AddressText(int family, const void* address) {
  std::array<char, INET6_ADDRSTRLEN> text = {};
  inet_ntop(family, address, text.data(), text.size());
  return text.data();
}

std::string NetworkOf(in6_addr address) {
  std::memset(address.s6_addr + kNetworkBytes, 0, sizeof(address.s6_addr) - kNetworkBytes);
  return absl::StrCat(AddressText(AF_INET6, &address), "/64");
}

std::string NetworkOfText(const std::string& host) {
  in6_addr address = {};
  const bool is_address =
      inet_pton(AF_INET6, host.substr(0, host.find('%')).c_str(), &address) == 1;
  return is_address ? NetworkOf(address) : host;
}

}  // namespace

std::string HostOf(const std::string& peer) {
  const std::string scheme = peer.substr(0, peer.find(':'));
  if (scheme != "ipv4" && scheme != "ipv6") {
    return scheme;
  }
  const std::string host = peer.substr(scheme.size() + 1, peer.rfind(':') - scheme.size() - 1);
  if (scheme == "ipv4") {
    return host;
  }
  const std::string plain = absl::StrReplaceAll(host, {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}});
  return absl::StartsWith(plain, "[") && absl::EndsWith(plain, "]")
             ? NetworkOfText(plain.substr(1, plain.size() - 2))
             : plain;
}

int PortOf(const std::string& peer) {
  int port = 0;
  return absl::SimpleAtoi(peer.substr(peer.rfind(':') + 1), &port) ? port : 0;
}

Peer PeerOfConnection(int connection) {
  sockaddr_storage peer = {};
  socklen_t size = sizeof(peer);
  if (getpeername(connection, reinterpret_cast<sockaddr*>(&peer), &size) != 0) {
    return {.host = "?"};
  }
  if (peer.ss_family == AF_INET) {
    const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(peer);
    return {AddressText(AF_INET, &ipv4.sin_addr), ntohs(ipv4.sin_port)};
  }
  if (peer.ss_family == AF_INET6) {
    const auto& ipv6 = reinterpret_cast<const sockaddr_in6&>(peer);
    const in6_addr& address = ipv6.sin6_addr;
    return {IN6_IS_ADDR_V4MAPPED(&address) ? AddressText(AF_INET, &address.s6_addr[kMappedBytes])
                                           : NetworkOf(address),
            ntohs(ipv6.sin6_port)};
  }
  return {.host = std::string(kUnixHost)};
}

}  // namespace attention
