#include "server/security/guards.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/prefixed.h"
#include "core/runtime/status_macros.h"
#include "server/security/exposure.h"
#include "server/security/tls_credentials.h"

namespace attention {

absl::StatusOr<Guards> OpenGuards(const ServerOptions& options) {
  RETURN_IF_ERROR(CheckExposure(options));
  Guards guards = {.credentials = grpc::InsecureServerCredentials()};
  if (!options.tls_certificate.empty()) {
    ASSIGN_OR_RETURN(
        guards.certificates,
        CertificateStore::Open({options.tls_certificate, options.tls_key, options.tls_client_ca}));
    guards.credentials = TlsCredentials(guards.certificates);
  }
  if (!options.tokens.empty()) {
    absl::StatusOr<std::unique_ptr<TokenStore>> tokens = TokenStore::Open(options.tokens);
    if (!tokens.ok()) {
      return Prefixed("--tokens", tokens.status());
    }
    guards.tokens = *std::move(tokens);
  }
  return guards;
}

std::vector<std::pair<std::string, bool>> Guards::CheckFiles() const {
  std::vector<std::pair<std::string, bool>> files;
  if (certificates != nullptr) {
    files.emplace_back("--tls-certificate", certificates->AreFilesValid());
  }
  if (tokens != nullptr) {
    files.emplace_back("--tokens", tokens->IsFileValid());
  }
  return files;
}

}  // namespace attention
