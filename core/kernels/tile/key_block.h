// The size of a key block.
#pragma once

#include <cstdint>

namespace attention {

/// The number of keys in a key block. Keys are packed, scored and summed in key blocks.
inline constexpr int64_t kKeyBlock = 64;

}  // namespace attention
