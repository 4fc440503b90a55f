#include "core/kernels/attention/head_tiles.h"

#include "core/tensor/tensor.h"

namespace attention {
namespace {

template <typename View>
void AddHeadRows(const View& view, int64_t head, int64_t first, int64_t count,
                 UpcomingRows& upcoming) {
  if (count <= 0) {
    return;
  }
  const auto element_bytes = static_cast<int64_t>(SizeOf(view.dtype));
  const int64_t element = first * view.token_stride + head * view.head_stride;
  upcoming.Add({.first = static_cast<const char*>(ElementAt(view.data, view.dtype, element)),
                .stride_bytes = view.token_stride * element_bytes,
                .rows = count,
                .row_bytes = view.head_dim * element_bytes});
}

void AddQuery(const HeadTiles& tiles, int64_t tile, UpcomingRows& upcoming) {
  AddHeadRows(tiles.sequence->query, tiles.HeadOf(tile), tiles.FirstRowOf(tile), tiles.RowsOf(tile),
              upcoming);
}

}  // namespace

UpcomingRows RowsAfter(const HeadTiles& tiles, int64_t tile, const HeadTiles* next) {
  UpcomingRows upcoming;
  AddHeadRows(tiles.sequence->output, tiles.HeadOf(tile), tiles.FirstRowOf(tile),
              tiles.RowsOf(tile), upcoming);
  if (tile + 1 < tiles.size()) {
    AddQuery(tiles, tile + 1, upcoming);
  } else if (next != nullptr && next->size() > 0) {
    AddQuery(*next, 0, upcoming);
  }
  if (next != nullptr) {
    const int64_t first = next->keys * tile / tiles.size();
    const int64_t count = next->keys * (tile + 1) / tiles.size() - first;
    AddHeadRows(next->sequence->key, next->kv_head, first, count, upcoming);
    AddHeadRows(next->sequence->value, next->kv_head, first, count, upcoming);
  }
  return upcoming;
}

}  // namespace attention
