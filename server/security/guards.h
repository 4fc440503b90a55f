// What stands between the network and the services, as the options say.
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "absl/status/statusor.h"
#include "server/security/certificates.h"
#include "server/security/tokens.h"
#include "server/server_options.h"

namespace attention {

struct Guards {
  /// Null: no TLS.
  std::shared_ptr<CertificateStore> certificates = {};
  /// Null: callers need none.
  std::unique_ptr<TokenStore> tokens = {};
  /// Of the listeners; outlive them.
  std::shared_ptr<grpc::ServerCredentials> credentials = {};
};

/// Errors of CheckExposure, CertificateStore and TokenStore.
absl::StatusOr<Guards> OpenGuards(const ServerOptions& options);

}  // namespace attention
