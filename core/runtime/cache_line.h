// The alignment of parts of one allocation, so that different users of it share no cache line.
#pragma once

#include <cstddef>

namespace attention {

/// Returns `bytes` rounded up to a multiple of 64, the size of a cache line.
constexpr size_t RoundUpToLine(size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace attention
