// The text of an address to listen on, and which machines can reach it.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace attention {

/// HOST:PORT or unix:/PATH, in its parts. Of host and path exactly one is not empty.
struct ListenAddress {
  /// The host, without the brackets of an IPv6 address.
  std::string host;
  /// The port, 0 to 65535. 0 stands for any free port.
  int port = 0;
  /// The path of a unix socket.
  std::string path;

  bool is_unix() const { return !path.empty(); }
};

/// Parses the text. INVALID_ARGUMENT says what was expected and what was found.
absl::StatusOr<ListenAddress> ParseListenAddress(const std::string& text);

/// Returns the errors of ParseListenAddress, which begin with the name of the flag.
absl::Status CheckAddress(const std::string& flag, const std::string& text);

/// Returns whether only processes of this machine can reach the address: unix:/PATH, localhost,
/// 127.0.0.0/8, [::1]. Other names are not resolved, and count as reachable from elsewhere. Returns
/// false for a text that is no address.
bool IsLocal(const std::string& text);

}  // namespace attention
