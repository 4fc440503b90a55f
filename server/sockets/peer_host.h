// The host that a connection comes from.
#pragma once

#include <string>

namespace attention {

/// Returns the host of a grpc::ServerContext::peer(): the address without its port; for IPv6 the
/// network of 64 bits, since a machine may choose the other half; "unix" for sockets of this
/// machine.
std::string HostOf(const std::string& peer);
/// Returns the same of a connection; "?" if it has ended.
std::string HostOfConnection(int connection);

}  // namespace attention
