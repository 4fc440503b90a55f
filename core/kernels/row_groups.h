// A tile's rows in groups that see much the same keys, so that little is computed that no row sees.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "core/kernels/tile_state.h"

namespace attention {

/// Rows that are normalised together, with the columns that some of them see.
struct RowGroup {
  Block block;
  /// Columns that every row may see, holes apart.
  int64_t all_see_begin = 0;
  int64_t all_see_end = 0;
};

struct Groups {
  RowGroup groups[kQueryTile / kRowGroup];
  int64_t count = 0;
  /// Columns [0, common_end) belong to every group.
  int64_t common_end = 0;

  std::span<const RowGroup> all() const { return {groups, static_cast<size_t>(count)}; }
};

/// Cuts the tile's rows into groups with the columns of the tile of keys at `first_key` that each
/// group sees: one group when all see the same. No group when no row sees a key. Sets the state's
/// visible_begin and visible_end.
Groups MakeGroups(TileState& s, int64_t first_key);

/// Calls f(block) for the columns that all groups share, for all rows at once, and for what is left
/// of each group; `alignment` is that of a block's first column.
template <typename F>
void ForBlocks(const TileState& s, const Groups& groups, int64_t alignment, const F& f) {
  const int64_t common = groups.common_end / alignment * alignment;
  if (common > 0) {
    f(Block{0, s.rows, 0, common});
  }
  for (int64_t i = 0; i < groups.count; ++i) {
    Block block = groups.groups[i].block;
    block.begin = std::max(block.begin, common);
    if (block.begin < block.end) {
      f(block);
    }
  }
}

}  // namespace attention
