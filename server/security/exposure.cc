#include "server/security/exposure.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "server/sockets/listen_address.h"

namespace attention {
namespace {

absl::Status CheckListener(const ServerOptions& options, const std::string& flag,
                           const std::string& address) {
  RETURN_IF_ERROR(CheckAddress(flag, address));
  if (IsLocal(address) || options.insecure || !options.tls_certificate.empty()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      flag, ": other machines would reach ", address,
      " in plaintext: use a certificate (--tls-certificate, --tls-key), listen on this machine "
      "only (127.0.0.1:PORT or unix:/PATH), or allow it (--insecure)"));
}

absl::Status CheckMetricsListener(const ServerOptions& options) {
  const std::string& address = options.metrics_listen;
  RETURN_IF_ERROR(CheckAddress("--metrics-listen", address));
  if (IsLocal(address) || options.metrics_insecure || options.insecure) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--metrics-listen: other machines would reach ", address,
                   " in plaintext, and metrics have no TLS: listen on this machine only "
                   "(127.0.0.1:PORT), or allow it (--metrics-insecure, --insecure)"));
}

}  // namespace

absl::Status CheckExposure(const ServerOptions& options) {
  if (options.listen.empty()) {
    return absl::InvalidArgumentError("--listen: expected an address, found none");
  }
  for (const std::string& address : options.listen) {
    RETURN_IF_ERROR(CheckListener(options, "--listen", address));
  }
  if (!options.health_listen.empty()) {
    RETURN_IF_ERROR(CheckAddress("--health-listen", options.health_listen));
  }
  if (!options.metrics_listen.empty()) {
    RETURN_IF_ERROR(CheckMetricsListener(options));
  }
  if (options.admin_listen.empty()) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(CheckListener(options, "--admin-listen", options.admin_listen));
  if (IsLocal(options.admin_listen) || options.insecure || !options.tokens.empty()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--admin-listen: other machines would administer the server at ", options.admin_listen,
      ", and nothing tells administrators from other callers (a client certificate does not): "
      "use tokens, those of administrators with \"admin\": true (--tokens), listen on this "
      "machine only (127.0.0.1:PORT or unix:/PATH), or allow it (--insecure)"));
}

std::string PlaintextWarning(const ServerOptions& options) {
  if (!options.tls_certificate.empty()) {
    return "";
  }
  std::vector<std::string> addresses = options.listen;
  addresses.push_back(options.admin_listen);
  for (const std::string& address : addresses) {
    if (!address.empty() && !IsLocal(address)) {
      return absl::StrCat("the server speaks plaintext on ", address,
                          " (--insecure): others on the network can read and change what it "
                          "receives and sends; for TLS give --tls-certificate=FILE and "
                          "--tls-key=FILE instead of --insecure");
    }
  }
  return "";
}

bool TrustsAdminListener(const ServerOptions& options) {
  return IsLocal(options.admin_listen) || options.tokens.empty();
}

}  // namespace attention
