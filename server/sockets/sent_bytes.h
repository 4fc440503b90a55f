// How much of what a connection has sent has arrived.
#pragma once

#include <cstdint>

namespace attention {

struct SentBytes {
  /// The bytes that the other end's system has acknowledged, since the start; 0 for sockets of this
  /// machine (unix:), which do not count them.
  int64_t arrived = 0;
  /// The bytes that it has not acknowledged; of a unix socket, those that were not read.
  int64_t under_way = 0;
};

/// Returns the counts of a connected socket; zeros for anything else.
SentBytes SentBytesOf(int connection);

}  // namespace attention
