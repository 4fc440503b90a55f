// What a configuration exposes to whom.
#pragma once

#include "absl/status/status.h"
#include "server/server_options.h"

namespace attention {

/// INVALID_ARGUMENT for an address that is none, and, without --insecure, for one that other
/// machines reach in plaintext, or that lets them administer the server unasked; the text says the
/// ways out.
absl::Status CheckExposure(const ServerOptions& options);

/// Who reaches the admin listener needs no token: only this machine does, or there are no tokens,
/// which takes --insecure.
bool TrustsAdminListener(const ServerOptions& options);

}  // namespace attention
