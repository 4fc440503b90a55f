// Where an element of a packed B lies.
#pragma once

#include <cstdint>

namespace attention {

/// Returns the index of element [row, col] of a packed B with `cols` columns, in which groups of
/// `together` rows are interleaved: 1, 2 or 4.
constexpr int64_t PackedIndex(int64_t row, int64_t col, int64_t cols, int64_t together) {
  return row / together * cols * together + col * together + row % together;
}

}  // namespace attention
