// The memory that a server's limits allow it.
#pragma once

#include <cstdint>
#include <string>

#include "server/server_options.h"

namespace attention {

/// Returns the maximum memory of the actions of sessions that wait for an earlier one.
int64_t MaxWaitingBytes(const ServerOptions& options);
/// Returns the maximum memory of the options and tables of sessions, which are no pages.
int64_t MaxTableBytes(const ServerOptions& options);

/// Returns the bytes that the limits allow the server besides its models, by the table "Memory" of
/// deploy/README.md.
int64_t MemoryNeed(const ServerOptions& options);

/// Returns a warning when the limits allow more than the control group, which has `group_bytes`
/// (0: no limit): the system would end the process. Otherwise an empty text.
std::string MemoryWarning(const ServerOptions& options, int64_t group_bytes);
/// Logs the warning for the control group of this process.
void WarnOfMemory(const ServerOptions& options);

}  // namespace attention
