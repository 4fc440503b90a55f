#include "core/kernels/attention/key_tile.h"

#include <limits>

namespace attention {
namespace {

/// Sets the columns of `keys` that each row may attend to. `tile` are its keys.
void SetVisibleColumns(const TileSetup& setup, const RowKeys& row_keys, const KeyRange& tile,
                       KeyTile& keys) {
  if (const Visibility visibility = setup.sequence.visibility(); visibility.has_gaps()) {
    for (int64_t r = 0; r < setup.rows; ++r) {
      const KeyRange visible = visibility.RangeWithin(setup.RowOf(r), tile);
      keys.visible_begin[r] = visible.begin - tile.begin;
      keys.visible_end[r] = visible.end - tile.begin;
    }
    return;
  }
  const int64_t count = tile.end - tile.begin;
  for (int64_t r = 0; r < setup.rows; ++r) {
    const int64_t end = std::clamp<int64_t>(row_keys.end[r] - tile.begin, 0, count);
    keys.visible_begin[r] = std::clamp<int64_t>(row_keys.begin[r] - tile.begin, 0, end);
    keys.visible_end[r] = end;
  }
}

/// Returns the group of the rows of `rectangle`. REQUIRES: their visible columns are set.
RowGroup MakeGroup(const TileSetup& setup, Rectangle rectangle, const KeyTile& keys) {
  rectangle.begin = kKeyTile;
  RowGroup group{.rectangle = rectangle, .common_end = kKeyTile};
  for (int64_t r = rectangle.first_row; r < rectangle.first_row + rectangle.rows; ++r) {
    const int64_t begin = keys.visible_begin[r];
    const int64_t end = keys.visible_end[r];
    const bool attends_to_some = begin < end;
    group.rectangle.begin = std::min(group.rectangle.begin, attends_to_some ? begin : kKeyTile);
    group.rectangle.end = std::max(group.rectangle.end, attends_to_some ? end : 0);
    group.common_begin = std::max(group.common_begin, begin);
    group.common_end = std::min(group.common_end, end);
  }
  const bool has_visible = group.rectangle.begin < group.rectangle.end;
  group.rectangle.begin = has_visible ? group.rectangle.begin / kKeyBlock * kKeyBlock : 0;
  group.rectangle.end = has_visible ? RoundUp(group.rectangle.end, setup.key_step) : 0;
  return group;
}

}  // namespace

RowKeys::RowKeys(const TileSetup& setup)
    : any{std::numeric_limits<int64_t>::max(), 0}, common{0, std::numeric_limits<int64_t>::max()} {
  const Visibility visibility = setup.sequence.visibility();
  const QueryTile& tile = setup.tile;
  if (visibility.hides_nothing()) {
    any = common = {0, setup.sequence.kv_len()};
    std::fill_n(begin, setup.rows, 0);
    std::fill_n(end, setup.rows, any.end);
    return;
  }
  visibility.Ranges(tile.first_row, tile.rows_per_head, begin, end);
  for (int64_t r = tile.rows_per_head; r < setup.rows; ++r) {  // the same rows of other heads
    begin[r] = begin[r - tile.rows_per_head];
    end[r] = end[r - tile.rows_per_head];
  }
  for (int64_t r = 0; r < tile.rows_per_head; ++r) {
    common = {std::max(common.begin, begin[r]), std::min(common.end, end[r])};
    const bool is_empty = begin[r] == end[r];
    any.begin = std::min(any.begin, is_empty ? any.begin : begin[r]);
    any.end = std::max(any.end, end[r]);
  }
}

void KeyTile::MakeGroups(const TileSetup& setup, const RowKeys& row_keys) {
  num_groups = 0;
  shared_end = 0;
  const KeyRange tile{first_key, std::min(row_keys.any.end, first_key + kKeyTile)};
  const Visibility visibility = setup.sequence.visibility();
  if (visibility.has_holes()) {
    int64_t row = 0;
    while (row < setup.rows &&
           !visibility.AttendsToAnyOf(setup.HeadOf(row), setup.RowOf(row), tile)) {
      ++row;
    }
    if (row == setup.rows) {
      return;
    }
  }
  if (!visibility.has_gaps() && row_keys.common.begin <= tile.begin &&
      row_keys.common.end >= tile.end) {
    const int64_t end = tile.end - tile.begin;
    std::fill_n(visible_begin, setup.rows, 0);
    std::fill_n(visible_end, setup.rows, end);
    group[num_groups++] = {{0, setup.rows, 0, RoundUp(end, setup.key_step)}, 0, end};
    return;
  }
  SetVisibleColumns(setup, row_keys, tile, *this);
  for (int64_t row = 0; row < setup.rows; row += kRowGroup) {
    group[num_groups++] = MakeGroup(setup, {row, std::min(kRowGroup, setup.rows - row)}, *this);
  }
  const Rectangle& first = group[0].rectangle;
  const Rectangle& second = group[1].rectangle;
  if (num_groups == 2 && first.begin == 0 && second.begin == 0) {
    shared_end = std::min(first.end, second.end);
  }
}

bool KeyTile::HidesNonFinite(const TileSetup& setup) const {
  const FlashSequence& sequence = setup.sequence;
  const bool has_holes = sequence.visibility().has_holes() || sequence.options.bias.data != nullptr;
  for (const RowGroup& rows : groups()) {
    int64_t col = rows.rectangle.begin;
    if (!has_holes && col >= rows.common_begin) {
      col = std::max(col, rows.common_end / kKeyBlock * kKeyBlock);
    }
    for (; col < rows.rectangle.end; col += kKeyBlock) {
      if (!setup.ValuesAreFinite(first_key + col)) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace attention
