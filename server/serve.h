// Serves until a signal, then drains.
#pragma once

#include "server/server_options.h"

namespace attention {

/// Runs a server until SIGTERM, SIGINT or SIGHUP, and drains it; the process then ends with 0.
/// Returns the exit code of a server that cannot start. A second SIGTERM or SIGINT ends the
/// process at once.
int Serve(const ServerOptions& options);

}  // namespace attention
