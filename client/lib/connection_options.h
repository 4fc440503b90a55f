// How a client reaches its server, and the metadata of every call.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace attention {

/// Files are in PEM form.
struct TlsOptions {
  /// Certificates of trusted authorities; empty: those of the system.
  std::string ca_file = {};
  /// The certificate of the client and its key (mTLS); both or none.
  std::string certificate_file = {};
  std::string key_file = {};
  /// The name that the certificates of all servers must have; empty: the host of the address.
  std::string server_name = {};
};

struct ConnectionOptions {
  /// host:port or unix:/path, or several of one kind separated by commas; of one server also any
  /// target of gRPC, such as dns:///name:port. Calls take turns on all servers that the list or the
  /// name stands for and that can be reached.
  std::string server = "127.0.0.1:8001";
  /// TLS; absent: plaintext.
  std::optional<TlsOptions> tls = {};
  /// Sent as "authorization: Bearer TOKEN", over TLS or to this machine only. Empty: none.
  std::string token = {};
  /// Sent with every call; names in lower case, values of names that end in "-bin" any bytes.
  std::vector<std::pair<std::string, std::string>> metadata = {};
  /// Whether calls that a server could not take are made again, as README.md says.
  bool retries = true;
};

}  // namespace attention
