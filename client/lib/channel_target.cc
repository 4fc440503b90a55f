#include "client/lib/channel_target.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

constexpr char kUnix[] = "unix:";

struct HostAndPort {
  std::string host;  // an IPv6 address without its brackets
  std::string port;
};

struct NumericAddress {
  bool is_ipv4 = false;
  std::string text;  // "10.0.0.1:8001", "[fe80::1%25eth0]:8001"
};

absl::string_view WithoutScheme(absl::string_view server) {
  for (const char* scheme : {"dns:///", "dns:", "ipv4:", "ipv6:"}) {
    if (absl::ConsumePrefix(&server, scheme)) {
      break;
    }
  }
  return server;
}

/// Splits at the last colon.
HostAndPort Split(absl::string_view server) {
  const absl::string_view text = WithoutScheme(server);
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos) {
    return {std::string(text), ""};
  }
  absl::string_view host = text.substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) {
    absl::ConsumeSuffix(&host, "]");
  }
  return {std::string(host), std::string(text.substr(colon + 1))};
}

/// Returns whether gRPC has another way than host:port to read this target.
bool HasScheme(absl::string_view server) {
  constexpr const char* kSchemes[] = {
      "dns:", "ipv4:", "ipv6:", "unix:", "unix-abstract:", "vsock:", "xds:"};
  return std::any_of(std::begin(kSchemes), std::end(kSchemes),
                     [&](const char* scheme) { return absl::StartsWith(server, scheme); });
}

/// Nullopt for what is not host:port. gRPC would take a port modulo 65,536, and 0 for none.
std::optional<HostAndPort> ParseHostAndPort(absl::string_view entry) {
  HostAndPort parsed = Split(entry);
  const absl::string_view text = WithoutScheme(entry);
  const bool has_colons = absl::StrContains(parsed.host, ":");
  int port = 0;
  if (parsed.host.empty() || absl::StrContains(parsed.host, "/") ||
      has_colons != absl::StartsWith(text, "[") || !absl::SimpleAtoi(parsed.port, &port) ||
      port < 1 || port > 65535) {
    return std::nullopt;
  }
  return parsed;
}

absl::StatusOr<HostAndPort> ParseEntry(absl::string_view entry, const std::string& list) {
  const std::optional<HostAndPort> parsed = ParseHostAndPort(entry);
  if (!parsed.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("server: expected a list of host:port, or one of unix:/path, found \"",
                     std::string(entry), "\" in \"", list, "\""));
  }
  return *parsed;
}

/// Returns the addresses of a host; none if the system does not know it.
std::vector<NumericAddress> LookUp(const HostAndPort& server) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(server.host.c_str(), server.port.c_str(), &hints, &found) != 0) {
    return {};
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  std::vector<NumericAddress> addresses;
  for (const addrinfo* next = found; next != nullptr; next = next->ai_next) {
    char host[NI_MAXHOST];
    if ((next->ai_family != AF_INET && next->ai_family != AF_INET6) ||
        getnameinfo(next->ai_addr, next->ai_addrlen, host, sizeof(host), nullptr, 0,
                    NI_NUMERICHOST) != 0) {
      continue;
    }
    const bool is_ipv4 = next->ai_family == AF_INET;
    addresses.push_back({is_ipv4, is_ipv4
                                      ? absl::StrCat(host, ":", server.port)
                                      : absl::StrCat("[", absl::StrReplaceAll(host, {{"%", "%25"}}),
                                                     "]:", server.port)});
  }
  return addresses;
}

/// Returns a target with one scheme for all addresses: beside IPv6 addresses, IPv4 addresses are
/// mapped to IPv6.
std::string UriOf(const std::vector<NumericAddress>& addresses) {
  const bool all_ipv4 = std::all_of(addresses.begin(), addresses.end(),
                                    [](const NumericAddress& one) { return one.is_ipv4; });
  std::vector<std::string> texts;
  for (const NumericAddress& address : addresses) {
    const size_t colon = address.text.rfind(':');
    texts.push_back(address.is_ipv4 && !all_ipv4
                        ? absl::StrCat("[::ffff:", address.text.substr(0, colon), "]",
                                       address.text.substr(colon))
                        : address.text);
  }
  return absl::StrCat(all_ipv4 ? "ipv4:" : "ipv6:", absl::StrJoin(texts, ","));
}

absl::StatusOr<ChannelTarget> TargetOfSockets(const std::vector<std::string>& entries,
                                              const std::string& list) {
  std::vector<std::string> paths;
  for (absl::string_view entry : entries) {
    if (!absl::ConsumePrefix(&entry, kUnix)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "server: expected a list of host:port, or one of unix:/path, found both in \"", list,
          "\""));
    }
    paths.emplace_back(entry);
  }
  return ChannelTarget{.uri = absl::StrCat(kUnix, absl::StrJoin(paths, ",")),
                       .common_host = "localhost",
                       .is_list = true,
                       .is_group = true};
}

}  // namespace

std::vector<std::string> ServersOf(absl::string_view list) {
  std::vector<std::string> servers = absl::StrSplit(list, ',');
  for (std::string& server : servers) {
    absl::StripAsciiWhitespace(&server);
  }
  return servers;
}

absl::StatusOr<ChannelTarget> TargetOf(const std::string& server) {
  const std::vector<std::string> entries = ServersOf(server);
  if (entries.size() == 1) {
    const std::string& only = entries.front();
    if (!HasScheme(only) && !ParseHostAndPort(only).has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("server: expected host:port with a port of 1 to 65535, unix:/path or "
                       "dns:///name:port, found \"",
                       server, "\""));
    }
    return ChannelTarget{.uri = only, .is_group = absl::StartsWith(only, "dns:")};
  }
  if (std::any_of(entries.begin(), entries.end(),
                  [](const std::string& entry) { return absl::StartsWith(entry, kUnix); })) {
    return TargetOfSockets(entries, server);
  }
  std::vector<NumericAddress> addresses;
  std::vector<std::string> hosts;
  for (const std::string& entry : entries) {
    ASSIGN_OR_RETURN(const HostAndPort parsed, ParseEntry(entry, server));
    const std::vector<NumericAddress> found = LookUp(parsed);
    addresses.insert(addresses.end(), found.begin(), found.end());
    hosts.push_back(parsed.host);
  }
  if (addresses.empty()) {
    return absl::UnavailableError(absl::StrCat(
        "server: expected hosts that the system knows, found none in \"", server, "\""));
  }
  const bool all_same = std::count(hosts.begin(), hosts.end(), hosts[0]) == std::ssize(hosts);
  return ChannelTarget{.uri = UriOf(addresses),
                       .common_host = all_same ? hosts[0] : "",
                       .is_list = true,
                       .is_group = true};
}

bool IsOnThisMachine(absl::string_view server) {
  const std::string host = Split(server).host;
  return absl::StartsWith(server, kUnix) || absl::StartsWith(server, "unix-abstract:") ||
         host == "localhost" || host == "::1" ||
         (absl::StartsWith(host, "127.") &&
          host.find_first_not_of("0123456789.") == std::string::npos);
}

}  // namespace attention
