// A key tile, one step of online softmax: which rows of a query tile attend to which of its keys.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/kernels/attention/tile_state.h"
#include "core/kernels/attention/visibility.h"

namespace attention {

/// The keys that the rows of a query tile may attend to by their positions.
struct RowKeys {
  explicit RowKeys(const TileSetup& setup);

  KeyRange any;               // the smallest range that holds the keys of every row
  KeyRange common;            // the keys that lie in the ranges of all rows
  int64_t begin[kQueryTile];  // the range of each row
  int64_t end[kQueryTile];
};

/// Rows of the query tile, and columns [begin, end) of a key tile.
struct Rectangle {
  int64_t first_row;
  int64_t rows;
  int64_t begin;
  int64_t end;
};

/// Rows that are normalised together because they attend to nearly the same keys: few hidden scores
/// are computed. The columns are those to which at least one of the rows attends.
struct RowGroup {
  Rectangle rectangle;
  /// Every row may attend to columns [common_begin, common_end), holes excepted.
  int64_t common_begin;
  int64_t common_end;
};

/// Up to kKeyTile keys from `first_key` on. Column c is key first_key + c. Nothing is initialised:
/// a query tile has memory for many key tiles, of which most use one.
struct KeyTile {
  /// Divides the rows into groups. There is one group when all rows attend to the same columns, and
  /// none when no row attends to a key. Sets visible_begin and visible_end.
  void MakeGroups(const TileSetup& setup, const RowKeys& row_keys);
  /// Whether a value that is hidden from some row is not finite.
  bool HidesNonFinite(const TileSetup& setup) const;

  std::span<const RowGroup> groups() const { return {group, static_cast<size_t>(num_groups)}; }
  float* ScoreRow(int64_t row) const { return scores + row * kScoreStride; }

  int64_t first_key;
  float* scores;            // [rows, kKeyTile], row stride kScoreStride; later probabilities
  uint16_t* probabilities;  // as scores: probabilities rounded to bf16 or u8
  /// The columns of each row, as RowKeys has them.
  int64_t visible_begin[kQueryTile];
  int64_t visible_end[kQueryTile];
  RowGroup group[kQueryTile / kRowGroup];
  int64_t num_groups;
  /// Columns [0, shared_end) belong to every group.
  int64_t shared_end;
};

/// Calls f(rectangle) for the columns that all groups share, for all rows at once, and then for the
/// remaining columns of each group. The first column of a rectangle is a multiple of `alignment`.
template <typename F>
void ForRectangles(const KeyTile& keys, int64_t rows, int64_t alignment, const F& f) {
  const int64_t shared = keys.shared_end / alignment * alignment;
  if (shared > 0) {
    f(Rectangle{0, rows, 0, shared});
  }
  for (const RowGroup& group : keys.groups()) {
    Rectangle rectangle = group.rectangle;
    rectangle.begin = std::max(rectangle.begin, shared);
    if (rectangle.begin < rectangle.end) {
      f(rectangle);
    }
  }
}

}  // namespace attention
