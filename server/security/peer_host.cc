#include "server/security/peer_host.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <array>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace attention {
namespace {

constexpr size_t kNetworkBytes = 8;

std::string NetworkOf(const std::string& host) {
  in6_addr address = {};
  if (inet_pton(AF_INET6, host.substr(0, host.find('%')).c_str(), &address) != 1) {
    return host;
  }
  std::memset(address.s6_addr + kNetworkBytes, 0, sizeof(address.s6_addr) - kNetworkBytes);
  std::array<char, INET6_ADDRSTRLEN> text = {};
  inet_ntop(AF_INET6, &address, text.data(), text.size());
  return absl::StrCat(std::string(text.data()), "/64");
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
             ? NetworkOf(plain.substr(1, plain.size() - 2))
             : plain;
}

}  // namespace attention
