// Where memory that several users share is divided.
#pragma once

#include <cstddef>

namespace attention {

/// Returns the next multiple of 64: what begins there shares no cache line with what lies before.
constexpr size_t RoundUpToLine(size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace attention
