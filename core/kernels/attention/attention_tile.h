// Attention of one tile of query rows over one head's packed keys and values.
#pragma once

#include <cstddef>

#include "core/kernels/attention/query_tile.h"

namespace attention {

/// Computes the tile's rows of everything that the sequence requests. `scratch` has
/// TileScratchBytes.
void AttendTile(const QueryTile& tile, std::byte* scratch);

}  // namespace attention
