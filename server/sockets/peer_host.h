// The host and the port that a connection comes from.
#pragma once

#include <string>
#include <string_view>

namespace attention {

inline constexpr std::string_view kUnixHost = "unix";

/// Returns the host of a grpc::ServerContext::peer(): the address without its port; for IPv6 the
/// network of 64 bits, since a machine may choose the other half; kUnixHost for sockets of this
/// machine.
std::string HostOf(const std::string& peer);
/// Returns the port of a grpc::ServerContext::peer(); 0 if it has none.
int PortOf(const std::string& peer);

/// The other end of a connection.
struct Peer {
  std::string host;  // as HostOf gives it; "?" if the connection has ended
  int port = 0;      // 0 for sockets of this machine
};

/// Returns host and port of the other end of a connected socket.
Peer PeerOfConnection(int connection);

}  // namespace attention
