// Checks which services a configuration exposes to which machines.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "server/server_options.h"

namespace attention {

/// Checks the addresses of the listeners. INVALID_ARGUMENT for an invalid address and, without
/// --insecure, for an address that other machines reach in plaintext, or that lets them administer
/// the server without a token. The text gives the alternatives.
absl::Status CheckExposure(const ServerOptions& options);

/// Returns a warning, with the alternative, if other machines reach a listener in plaintext because
/// --insecure allows it; otherwise an empty text. Metrics, which have no TLS, do not count.
std::string PlaintextWarning(const ServerOptions& options);

/// Returns whether callers of the admin listener need no token: only this machine reaches it, or
/// there are no tokens, which then needs --insecure.
bool TrustsAdminListener(const ServerOptions& options);

}  // namespace attention
