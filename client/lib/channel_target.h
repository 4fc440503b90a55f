// Converts the addresses of servers to targets of gRPC.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace attention {

struct ChannelTarget {
  /// The target.
  std::string uri;
  /// The common host of all servers of a list; empty if their hosts differ.
  std::string common_host;
  bool is_list = false;
  /// Whether the target stands for several servers: a list, or dns:///name:port.
  bool is_group = false;
};

/// Returns the servers of a list, without the white space around each.
std::vector<std::string> ServersOf(absl::string_view list);

/// Returns the target of ConnectionOptions::server. INVALID_ARGUMENT for a server that is neither
/// host:port nor a target with one of gRPC's schemes, a list with an invalid entry, or a list with
/// both sockets and hosts; UNAVAILABLE if no host of a list is known. gRPC looks up the name of a
/// single server for each new connection; the names of a list are looked up here, which takes as
/// long as the system's resolver takes.
absl::StatusOr<ChannelTarget> TargetOf(const std::string& server);

/// Returns whether bytes to `server` stay on this machine: a socket, localhost or a loopback
/// address.
bool IsOnThisMachine(absl::string_view server);

}  // namespace attention
