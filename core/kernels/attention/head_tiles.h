// The query tiles of one key/value head, and the rows that a thread needs next.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/kernels/attention/query_tile.h"
#include "core/kernels/tile/prefetch.h"
#include "core/runtime/round_up.h"
#include "core/tensor/ragged.h"

namespace attention {

/// The query tiles of the rows of `range` in the head group of a key/value head, in the order in
/// which one thread computes them.
struct HeadTiles {
  int64_t size() const { return sequence->group() * row_tiles(); }
  int64_t HeadOf(int64_t tile) const { return kv_head * sequence->group() + tile / row_tiles(); }
  int64_t FirstRowOf(int64_t tile) const {
    return range.first_row + tile % row_tiles() * kQueryTile;
  }
  int64_t RowsOf(int64_t tile) const {
    return std::min(kQueryTile, range.first_row + range.rows - FirstRowOf(tile));
  }
  int64_t row_tiles() const { return CeilDiv(range.rows, kQueryTile); }

  const FlashSequence* sequence = nullptr;
  RowRange range;
  int64_t kv_head = 0;
  int64_t keys = 0;  // to which the rows attend: [0, keys)
};

/// Returns the rows of tensors that a thread needs during `tile` and after it: the output of this
/// tile, the query of the next one, and a part of the keys and values of the next head. `next`: the
/// tiles that follow those of `tiles`, or null.
UpcomingRows RowsAfter(const HeadTiles& tiles, int64_t tile, const HeadTiles* next);

/// Returns the tensor rows of `keys` and of their values, without keys that the sequence lacks.
UpcomingRows RowsOf(const FlashSequence& sequence, int64_t kv_head, KeyRange keys);

}  // namespace attention
