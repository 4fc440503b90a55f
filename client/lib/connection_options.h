// How a client reaches its server, and what it says of itself in every call.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace attention {

/// Files are in PEM form.
struct TlsOptions {
  /// Authorities that may vouch for the server; empty: those of the system.
  std::string ca_file = {};
  /// What the client shows of itself (mTLS); both or none.
  std::string certificate_file = {};
  std::string key_file = {};
  /// The name that the server's certificate must have; empty: the host of the address.
  std::string server_name = {};
};

struct ConnectionOptions {
  /// host:port, or unix:/path.
  std::string server = "127.0.0.1:8001";
  /// Absent: plaintext.
  std::optional<TlsOptions> tls = {};
  /// Sent as "authorization: Bearer TOKEN", over TLS or to this machine only. Empty: none.
  std::string token = {};
  /// Sent with every call; names in lower case, values of names that end in "-bin" any bytes.
  std::vector<std::pair<std::string, std::string>> metadata = {};
};

}  // namespace attention
