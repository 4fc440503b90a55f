#include "core/kernels/flash_attention.h"

#include <algorithm>
#include <utility>

#include "core/kernels/head_rows.h"
#include "core/kernels/tile/tile_kernels.h"
#include "core/kernels/tile_state.h"

namespace attention {
namespace {

/// Keys that one packing task takes.
constexpr int64_t kPackRows = kKeyTile;

/// A head that packs into no more than this is packed and attended to by one thread: it stays in
/// the L2 cache.
constexpr size_t kPrivateHeadBytes = 512 << 10;
/// Fewer heads than this for each thread would leave threads waiting for the last one.
constexpr int64_t kHeadsPerThread = 6;

/// Regression and linear attention work on f32.
Dtype OperandDtype(const FlashSequence& sequence, Dtype compute) {
  return sequence.similarity == Similarity::kDotProduct ? compute : Dtype::kF32;
}

KeyValueStorage StorageOf(Dtype compute) {
  return compute == Dtype::kBf16 ? KeyValueStorage::kBf16 : KeyValueStorage::kF32;
}

std::vector<SequenceRotations> MakeRotations(std::span<const FlashSequence> sequences) {
  std::vector<SequenceRotations> rotations;
  for (const FlashSequence& s : sequences) {
    SequenceRotations& rotation = rotations.emplace_back();
    if (s.rotary.has_value()) {
      rotation.query = RotaryTable(*s.rotary, s.query.head_dim, s.visibility.query_offset,
                                   s.query.tokens);
      rotation.key = RotaryTable(*s.rotary, s.query.head_dim, 0,
                                 s.cached.has_value() ? 0 : s.key.tokens);
    }
  }
  return rotations;
}

PackSource SourceRows(const HeadsView& view, int64_t first_row, int64_t rows, int64_t head) {
  const int64_t first = first_row * view.token_stride + head * view.head_stride;
  return {ElementAt(view.data, view.dtype, first), view.dtype, view.token_stride, rows,
          view.head_dim};
}

}  // namespace

FlashAttention::FlashAttention(std::vector<FlashSequence> sequences, Dtype compute,
                               Workspace& workspace)
    : sequences_(std::move(sequences)),
      plan_(AttentionPlan::Get(OperandDtype(sequences_.front(), compute),
                               sequences_.front().query.head_dim,
                               sequences_.front().value.head_dim)),
      workspace_(workspace),
      rotations_(MakeRotations(sequences_)) {
  for (const FlashSequence& s : sequences_) {
    const KeyValueStorage storage =
        s.cached.has_value() ? s.cached->storage : StorageOf(plan_.compute());
    tile_scratch_bytes_ = std::max(tile_scratch_bytes_, TileScratchBytes(plan_, storage));
  }
}

FlashAttention::HeadMemory FlashAttention::LayOutHead(std::byte* first, int64_t keys) const {
  const int64_t blocks = RoundUp(keys, kKeyBlock) / kKeyBlock;
  const int64_t element_bytes = static_cast<int64_t>(SizeOf(plan_.compute()));
  const int64_t values_at = blocks * plan_.key_block_elements() * element_bytes;
  const int64_t flags_at = values_at + blocks * plan_.value_block_elements() * element_bytes;
  return {{.keys = first,
           .values = first + values_at,
           .values_are_finite = reinterpret_cast<uint8_t*>(first + flags_at)},
          static_cast<size_t>(flags_at + RoundUp(blocks, 64))};
}

PackedHead FlashAttention::HeadOf(int64_t sequence, int64_t kv_head) const {
  const std::optional<CachedKeyValues>& cached = sequences_[sequence].cached;
  if (cached.has_value()) {
    return {&cached->pages[kv_head * cached->pages_per_head], cached->blocks_per_page,
            cached->storage};
  }
  return {.pages = &heads_[sequence][kv_head], .storage = StorageOf(plan_.compute())};
}

/// `scratch` holds kKeyBlock prepared rows.
void FlashAttention::PackBlocks(const RowRange& range, int64_t kv_head, const HeadPage& page,
                                std::byte* scratch) const {
  const TileKernels& kernels = CurrentTileKernels();
  const FlashSequence& sequence = sequences_[range.sequence];
  const size_t element_bytes = SizeOf(plan_.compute());
  for (int64_t row = range.first_row; row < range.first_row + range.rows; row += kKeyBlock) {
    const int64_t rows = std::min(kKeyBlock, range.first_row + range.rows - row);
    const int64_t block = row / kKeyBlock;
    PackSource key = SourceRows(sequence.key, row, rows, kv_head);
    const HeadPreparation preparation{
        .norm = sequence.key_norm,
        .rotary = sequence.rotary,
        .table = &rotations_[range.sequence].key,
        .first_row = row,
        .has_feature_map = sequence.similarity == Similarity::kLinear};
    if (preparation.does_something()) {
      PrepareHeadRows(preparation, key, plan_.compute(), scratch);
      key = {scratch, plan_.compute(), key.cols, rows, key.cols};
    }
    kernels.pack_transposed(key, plan_.compute(), plan_.depth(),
                            page.keys + block * plan_.key_block_elements() * element_bytes);
    page.values_are_finite[block] = kernels.pack_rows(
        SourceRows(sequence.value, row, rows, kv_head), plan_.compute(), plan_.value_width(),
        page.values + block * plan_.value_block_elements() * element_bytes);
  }
}

void FlashAttention::PackKeys(std::span<const RowRange> pieces) {
  if (heads_.empty()) {
    size_t bytes = 0;
    for (const FlashSequence& s : sequences_) {
      bytes += s.cached.has_value() ? 0 : s.key.num_heads * LayOutHead(nullptr, s.kv_len()).bytes;
    }
    std::byte* memory = workspace_.Buffer(Workspace::kPackedKeyValue, bytes);
    for (const FlashSequence& s : sequences_) {
      std::vector<HeadPage>& heads = heads_.emplace_back();
      for (int64_t head = 0; !s.cached.has_value() && head < s.key.num_heads; ++head) {
        const HeadMemory laid_out = LayOutHead(memory, s.kv_len());
        heads.push_back(laid_out.page);
        memory += laid_out.bytes;
      }
    }
  }
  std::vector<std::pair<RowRange, int64_t>> tasks;
  for (const RowRange& piece : pieces) {
    const FlashSequence& s = sequences_[piece.sequence];
    for (int64_t head = 0; !s.cached.has_value() && head < s.key.num_heads; ++head) {
      for (int64_t row = 0; row < piece.rows; row += kPackRows) {
        tasks.push_back(
            {{piece.sequence, piece.first_row + row, std::min(kPackRows, piece.rows - row)}, head});
      }
    }
  }
  workspace_.pool().ParallelFor(std::ssize(tasks), [&](int64_t i, int worker) {
    const auto& [piece, head] = tasks[i];
    PackBlocks(piece, head, heads_[piece.sequence][head],
               workspace_.Scratch(worker, tile_scratch_bytes_));
  });
}

QueryTile FlashAttention::TileOf(int64_t sequence, const PackedHead& packed) const {
  return {.sequence = &sequences_[sequence],
          .rotations = &rotations_[sequence],
          .packed = packed};
}

/// Short queries put the heads that share keys into one tile.
void FlashAttention::AppendTiles(const RowRange& piece, std::vector<QueryTile>& tiles) const {
  if (piece.rows == 0) {
    return;
  }
  const FlashSequence& sequence = sequences_[piece.sequence];
  const int64_t group = sequence.group();
  const int64_t rows_per_head = std::min(kQueryTile, piece.rows);
  const int64_t heads_per_tile = std::min(group, kQueryTile / rows_per_head);
  for (int64_t head = 0; head < sequence.query.num_heads;) {
    const int64_t kv_head = head / group;
    QueryTile tile = TileOf(piece.sequence, HeadOf(piece.sequence, kv_head));
    tile.first_head = head;
    tile.num_heads = std::min(heads_per_tile, (kv_head + 1) * group - head);
    // The last rows of a causal sequence cost most: first, so that the threads end together.
    for (int64_t row = RoundUp(piece.rows, kQueryTile) - kQueryTile; row >= 0; row -= kQueryTile) {
      tile.first_row = piece.first_row + row;
      tile.rows_per_head = std::min(kQueryTile, piece.rows - row);
      tiles.push_back(tile);
    }
    head += tile.num_heads;
  }
}

void FlashAttention::Attend(std::span<const RowRange> pieces) {
  std::vector<QueryTile> tiles;
  for (const RowRange& piece : pieces) {
    AppendTiles(piece, tiles);
  }
  workspace_.pool().ParallelFor(std::ssize(tiles), [&](int64_t i, int worker) {
    AttendTile(plan_, tiles[i], /*with_output=*/true,
               workspace_.Scratch(worker, tile_scratch_bytes_));
  });
}

void FlashAttention::PackAndAttendHead(int64_t index, int64_t kv_head, int worker) {
  const FlashSequence& sequence = sequences_[index];
  const size_t packed_bytes = LayOutHead(nullptr, sequence.kv_len()).bytes;
  std::byte* scratch = workspace_.Scratch(worker, packed_bytes + tile_scratch_bytes_);
  const HeadPage page = LayOutHead(scratch, sequence.kv_len()).page;
  PackBlocks({index, 0, sequence.kv_len()}, kv_head, page, scratch + packed_bytes);
  QueryTile tile = TileOf(index, {.pages = &page, .storage = StorageOf(plan_.compute())});
  const int64_t group = sequence.group();
  for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    tile.first_head = head;
    for (int64_t row = 0; row < sequence.query.tokens; row += kQueryTile) {
      tile.first_row = row;
      tile.rows_per_head = std::min(kQueryTile, sequence.query.tokens - row);
      AttendTile(plan_, tile, /*with_output=*/true, scratch + packed_bytes);
    }
  }
}

void FlashAttention::PackAndAttend() {
  const int64_t kv_heads = sequences_.front().key.num_heads;
  const int64_t num_heads = std::ssize(sequences_) * kv_heads;
  int64_t longest = 0;
  bool any_cached = false;
  for (const FlashSequence& sequence : sequences_) {
    longest = std::max(longest, sequence.kv_len());
    any_cached |= sequence.cached.has_value();
  }
  const int threads = workspace_.pool().num_threads();
  if (!any_cached && LayOutHead(nullptr, longest).bytes <= kPrivateHeadBytes &&
      (threads == 1 || num_heads >= kHeadsPerThread * threads)) {
    workspace_.pool().ParallelFor(num_heads, [&](int64_t i, int worker) {
      PackAndAttendHead(i / kv_heads, i % kv_heads, worker);
    });
    return;
  }
  std::vector<RowRange> all_keys;
  std::vector<RowRange> all_rows;
  for (const FlashSequence& sequence : sequences_) {
    const int64_t index = std::ssize(all_keys);
    all_keys.push_back({index, 0, sequence.kv_len()});
    all_rows.push_back({index, 0, sequence.query.tokens});
  }
  PackKeys(all_keys);
  Attend(all_rows);
}

}  // namespace attention
