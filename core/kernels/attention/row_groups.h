// Groups of a tile's rows that attend to nearly the same keys, so that few hidden scores are
// computed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "core/kernels/attention/tile_state.h"

namespace attention {

/// Rows that are normalised together, and the columns that at least one of them attends to.
struct RowGroup {
  Block block;
  /// The columns that every row may attend to, holes excepted.
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

/// Divides the tile's rows into groups, each with the columns of the key tile at `first_key` that
/// it attends to. There is one group when all rows attend to the same columns, and none when no row
/// attends to a key. Sets the state's visible_begin and visible_end.
Groups MakeGroups(TileState& s, int64_t first_key);

/// Calls f(block) for the columns that all groups share, for all rows at once, and then for the
/// remaining columns of each group. The first column of a block is a multiple of `alignment`.
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
