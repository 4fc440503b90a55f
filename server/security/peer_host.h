// The machine that a connection comes from.
#pragma once

#include <string>

namespace attention {

/// Of grpc::ServerContext::peer(): the address without its port; of IPv6 the network of 64 bits,
/// whose other half a machine chooses as it likes; "unix" for this machine's sockets.
std::string HostOf(const std::string& peer);

}  // namespace attention
