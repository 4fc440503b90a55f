// What gRPC is told to dial.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace attention {

struct ChannelTarget {
  /// A target of gRPC.
  std::string uri;
  /// Of a list: the host that all have in common; empty when there is none.
  std::string common_host;
  bool is_list = false;
  /// Whether it stands for servers of which each may go: a list, or dns:///name:port.
  bool is_group = false;
};

/// Of ConnectionOptions::server. INVALID_ARGUMENT for an empty text, a list with an entry that is
/// none, or one of sockets and hosts; UNAVAILABLE when no host of a list is known. One server's
/// name is left to gRPC, which looks it up for each new connection; those of a list are looked up
/// now, which may take as long as the system's resolver lets it.
absl::StatusOr<ChannelTarget> TargetOf(const std::string& server);

/// Whether what is sent there does not leave this machine: a socket, localhost or a loopback
/// address.
bool IsOnThisMachine(absl::string_view server);

}  // namespace attention
