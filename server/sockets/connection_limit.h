// How many connections a listener takes.
#pragma once

#include <cstdint>
#include <string>

namespace attention {

/// Returns the warning of a limit of open files that is too small for so many connections; empty if
/// it is not.
std::string FewFilesWarning(int64_t max_connections, uint64_t max_files);

/// Returns how many of the `wanted` connections a listener may take when the process may open
/// `max_files`: some files are left for its own use, and for the other listeners.
int64_t ConnectionsWithin(uint64_t max_files, int64_t wanted);

/// Returns ConnectionsWithin the limit of open files of this process. Logs the warning once in a
/// process, since its listeners have the same limit.
int64_t ConnectionsWithinOwnLimit(int64_t wanted);

}  // namespace attention
