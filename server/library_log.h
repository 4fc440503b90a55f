// The log of gRPC and protobuf.
#pragma once

namespace attention {

/// Writes what gRPC logs to the server's log: its errors as errors, everything else at the level
/// debug. Clients can cause such messages, so their number and length are limited. What protobuf
/// logs is left out: callers get an error for bytes that are no message. Called once.
void TakeOverLibraryLogs();

}  // namespace attention
