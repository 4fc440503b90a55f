// Targets of gRPC for the addresses of servers.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace attention {

struct ChannelTarget {
  /// A target of gRPC.
  std::string uri;
  /// The common host of all servers of a list; empty if their hosts differ.
  std::string common_host;
  bool is_list = false;
  /// Whether the target stands for several servers: a list, or dns:///name:port.
  bool is_group = false;
};

/// The target for ConnectionOptions::server. INVALID_ARGUMENT for an empty text, a list with an
/// invalid entry, or a list with both sockets and hosts; UNAVAILABLE when no host of a list is
/// known. One server's name is left to gRPC, which looks it up for each new connection; those of a
/// list are looked up now, which may take as long as the system's resolver lets it.
absl::StatusOr<ChannelTarget> TargetOf(const std::string& server);

/// Whether bytes to `server` stay on this machine: a socket, localhost or a loopback address.
bool IsOnThisMachine(absl::string_view server);

}  // namespace attention
