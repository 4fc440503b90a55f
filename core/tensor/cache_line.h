// Where memory that several tensors share is divided.
#pragma once

#include <cstddef>

namespace attention {

/// The next multiple of 64: a tensor that begins there shares no cache line with the one before.
constexpr size_t RoundUpToLine(size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace attention
