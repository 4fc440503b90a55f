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

void AddKeys(const FlashSequence& sequence, int64_t kv_head, KeyRange keys,
             UpcomingRows& upcoming) {
  const int64_t count = keys.end - keys.begin;
  AddHeadRows(sequence.key, kv_head, keys.begin, count, upcoming);
  AddHeadRows(sequence.value, kv_head, keys.begin, count, upcoming);
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
    const int64_t end = next->keys * (tile + 1) / tiles.size();
    AddKeys(*next->sequence, next->kv_head, {first, end}, upcoming);
  }
  return upcoming;
}

UpcomingRows RowsOf(const FlashSequence& sequence, int64_t kv_head, KeyRange keys) {
  UpcomingRows rows;
  AddKeys(sequence, kv_head, {keys.begin, std::min(keys.end, sequence.kv_len())}, rows);
  return rows;
}

}  // namespace attention
