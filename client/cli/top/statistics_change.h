// What a server did between two readings of its statistics.
#pragma once

#include "proto/attention/v1/attention.pb.h"

namespace attention {

/// `after` with each number less that of `before`, which makes counts and times those of the time
/// between the two; a model keeps its version, and one that `before` does not have its numbers. If
/// the server was restarted in between, `after` itself.
v1::ServerStatistics ChangeBetween(const v1::ServerStatistics& before,
                                   const v1::ServerStatistics& after);

}  // namespace attention
