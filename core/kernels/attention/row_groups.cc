#include "core/kernels/attention/row_groups.h"

namespace attention {
namespace {

/// Makes a group of the rows, with their visible columns of the key tile.
RowGroup MakeGroup(TileState& s, const KeyRange& tile, int64_t first_row, int64_t rows) {
  RowGroup group{.block = {first_row, rows, kKeyTile, 0}, .all_see_end = kKeyTile};
  for (int64_t r = first_row; r < first_row + rows; ++r) {
    const int64_t end = std::clamp(s.range_end[r], tile.begin, tile.end) - tile.begin;
    const int64_t begin = std::min(std::max(s.range_begin[r], tile.begin) - tile.begin, end);
    s.visible_begin[r] = begin;
    s.visible_end[r] = end;
    if (begin < end) {
      group.block.begin = std::min(group.block.begin, begin);
      group.block.end = std::max(group.block.end, end);
    }
    group.all_see_begin = std::max(group.all_see_begin, begin);
    group.all_see_end = std::min(group.all_see_end, end);
  }
  const bool sees_any = group.block.begin < group.block.end;
  group.block.begin = sees_any ? group.block.begin / kKeyBlock * kKeyBlock : 0;
  group.block.end = sees_any ? RoundUp(group.block.end, kKeyStep) : 0;
  return group;
}

}  // namespace

Groups MakeGroups(TileState& s, int64_t first_key) {
  Groups groups;
  const KeyRange tile{first_key, std::min(s.keys.end, first_key + kKeyTile)};
  const Visibility visibility = s.sequence.visibility();
  if (visibility.has_holes()) {
    int64_t row = 0;
    while (row < s.rows && !visibility.SeesAnyOf(s.HeadOf(row), s.RowOf(row), tile)) {
      ++row;
    }
    if (row == s.rows) {
      return groups;
    }
  }
  if (s.common_keys.begin <= tile.begin && s.common_keys.end >= tile.end) {
    const int64_t end = tile.end - tile.begin;
    std::fill_n(s.visible_begin, s.rows, 0);
    std::fill_n(s.visible_end, s.rows, end);
    groups.groups[groups.count++] = {{0, s.rows, 0, RoundUp(end, kKeyStep)}, 0, end};
    return groups;
  }
  for (int64_t row = 0; row < s.rows; row += kRowGroup) {
    groups.groups[groups.count++] = MakeGroup(s, tile, row, std::min(kRowGroup, s.rows - row));
  }
  const Block& first = groups.groups[0].block;
  const Block& second = groups.groups[1].block;
  if (groups.count == 2 && first.begin == 0 && second.begin == 0) {
    groups.common_end = std::min(first.end, second.end);
  }
  return groups;
}

}  // namespace attention
