// The guards between the network and the services, as the options configure them.
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/security/certificates.h"
#include "server/security/tokens.h"
#include "server/server_options.h"

namespace attention {

struct Guards {
  /// Null: no TLS.
  std::shared_ptr<CertificateStore> certificates = {};
  /// Null: callers need no token.
  std::unique_ptr<TokenStore> tokens = {};
  /// The credentials of the listeners, which they outlive.
  std::shared_ptr<grpc::ServerCredentials> credentials = {};

  /// Returns the flags that name files of credentials, each with whether its files are valid now.
  /// The key and the clients' authority count as --tls-certificate. Thread-safe.
  std::vector<std::pair<std::string, bool>> CheckFiles() const;
};

/// Opens the guards. Returns the errors of CheckExposure, CertificateStore and TokenStore.
absl::StatusOr<Guards> OpenGuards(const ServerOptions& options);

}  // namespace attention
