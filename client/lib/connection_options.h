// The address of a server, TLS, and the metadata of every call.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace attention {

/// The certificates of a connection: paths of PEM files.
struct TlsOptions {
  /// The certificates of the trusted authorities; empty: those of the system.
  std::string ca_file = {};
  /// The certificate of the client and its key (mutual TLS); both or none.
  std::string certificate_file = {};
  std::string key_file = {};
  /// The name that the certificates of all servers must have; empty: the host of the address.
  std::string server_name = {};
};

struct ConnectionOptions {
  /// The server, host:port or unix:/path, or several of one kind, separated by commas. A single
  /// server may also be any target of gRPC, such as dns:///name:port. Calls take turns on all
  /// reachable servers of the list or the name.
  std::string server = "127.0.0.1:8001";
  /// The options of TLS; absent: plaintext.
  std::optional<TlsOptions> tls = {};
  /// The token sent as "authorization: Bearer TOKEN", over TLS or to this machine only. Empty:
  /// none.
  std::string token = {};
  /// The metadata of every call. Names are lower case, and no headers of HTTP/2 or gRPC itself;
  /// values of names that end in "-bin" may have any bytes.
  std::vector<std::pair<std::string, std::string>> metadata = {};
  /// Whether calls that a server could not handle are retried, as client/README.md says.
  bool retries = true;
};

}  // namespace attention
