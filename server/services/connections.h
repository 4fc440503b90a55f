// How many clients are connected.
#pragma once

#include <cstdint>

namespace attention {

/// Open connections of all gRPC servers of this process, which gRPC's own account of itself
/// (channelz) tells. Thread-safe.
int64_t CountConnections();

}  // namespace attention
