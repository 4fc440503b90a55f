#include "core/kernels/flash_attention.h"

#include <algorithm>
#include <utility>

#include "core/kernels/tile/tile_kernels.h"

namespace attention {
namespace {

/// Keys that one packing task takes.
constexpr int64_t kPackRows = kKeyTile;

/// A head that packs into no more than this is packed and attended to by one thread: it stays in
/// the L2 cache.
constexpr size_t kPrivateHeadBytes = 512 << 10;
/// Fewer heads than this for each thread would leave threads waiting for the last one.
constexpr int64_t kHeadsPerThread = 6;

int64_t NumBlocks(int64_t keys) { return RoundUp(keys, kKeyBlock) / kKeyBlock; }

size_t PackedHeadBytes(const AttentionPlan& plan, int64_t keys) {
  const int64_t blocks = NumBlocks(keys);
  const int64_t elements = blocks * (plan.key_block_elements() + plan.value_block_elements());
  return elements * SizeOf(plan.compute()) + RoundUp(blocks, 64);
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
      plan_(AttentionPlan::Get(compute, sequences_.front().query.head_dim,
                               sequences_.front().value.head_dim)),
      workspace_(workspace) {}

PackedHead FlashAttention::HeadAt(std::byte* first, int64_t keys) const {
  const int64_t blocks = NumBlocks(keys);
  const size_t element_bytes = SizeOf(plan_.compute());
  std::byte* values = first + blocks * plan_.key_block_elements() * element_bytes;
  std::byte* flags = values + blocks * plan_.value_block_elements() * element_bytes;
  return {first, values, reinterpret_cast<uint8_t*>(flags)};
}

PackedHead FlashAttention::HeadOf(int64_t sequence, int64_t kv_head) const {
  const int64_t keys = sequences_[sequence].key.tokens;
  return HeadAt(packed_ + first_head_bytes_[sequence] + kv_head * PackedHeadBytes(plan_, keys),
                keys);
}

void FlashAttention::PackBlocks(const RowRange& range, int64_t kv_head,
                                const PackedHead& packed) const {
  const TileKernels& kernels = CurrentTileKernels();
  const FlashSequence& sequence = sequences_[range.sequence];
  const size_t element_bytes = SizeOf(plan_.compute());
  for (int64_t row = range.first_row; row < range.first_row + range.rows; row += kKeyBlock) {
    const int64_t rows = std::min(kKeyBlock, range.first_row + range.rows - row);
    const int64_t block = row / kKeyBlock;
    kernels.pack_transposed(SourceRows(sequence.key, row, rows, kv_head), plan_.compute(),
                            plan_.depth(),
                            packed.keys + block * plan_.key_block_elements() * element_bytes);
    packed.values_are_finite[block] = kernels.pack_rows(
        SourceRows(sequence.value, row, rows, kv_head), plan_.compute(), plan_.value_width(),
        packed.values + block * plan_.value_block_elements() * element_bytes);
  }
}

void FlashAttention::PackKeys(std::span<const RowRange> pieces) {
  if (packed_ == nullptr) {
    size_t bytes = 0;
    for (const FlashSequence& sequence : sequences_) {
      first_head_bytes_.push_back(bytes);
      bytes += sequence.key.num_heads * PackedHeadBytes(plan_, sequence.key.tokens);
    }
    packed_ = workspace_.Buffer(Workspace::kPackedKeyValue, bytes);
  }
  std::vector<std::pair<RowRange, int64_t>> tasks;
  for (const RowRange& piece : pieces) {
    for (int64_t head = 0; head < sequences_[piece.sequence].key.num_heads; ++head) {
      for (int64_t row = 0; row < piece.rows; row += kPackRows) {
        tasks.push_back(
            {{piece.sequence, piece.first_row + row, std::min(kPackRows, piece.rows - row)}, head});
      }
    }
  }
  workspace_.pool().ParallelFor(std::ssize(tasks), [&](int64_t i, int /*worker*/) {
    const auto& [piece, head] = tasks[i];
    PackBlocks(piece, head, HeadOf(piece.sequence, head));
  });
}

void FlashAttention::Attend(std::span<const RowRange> pieces) {
  std::vector<QueryTile> tiles;
  bool any_weights = false;
  for (const RowRange& piece : pieces) {
    const FlashSequence& sequence = sequences_[piece.sequence];
    any_weights |= sequence.weights != nullptr;
    const int64_t group = sequence.query.num_heads / sequence.key.num_heads;
    for (int64_t head = 0; head < sequence.query.num_heads; ++head) {
      const PackedHead packed = HeadOf(piece.sequence, head / group);
      // The last rows of a causal sequence cost most: first, so that the threads end together.
      for (int64_t row = RoundUp(piece.rows, kQueryTile) - kQueryTile; row >= 0;
           row -= kQueryTile) {
        tiles.push_back({&sequence, packed, head, piece.first_row + row,
                         std::min(kQueryTile, piece.rows - row)});
      }
    }
  }
  const size_t scratch_bytes = TileScratchBytes(plan_);
  workspace_.pool().ParallelFor(std::ssize(tiles), [&](int64_t i, int worker) {
    AttendTile(plan_, tiles[i], workspace_.Scratch(worker, scratch_bytes));
  });
  if (any_weights) {
    workspace_.pool().ParallelFor(std::ssize(tiles), [&](int64_t i, int worker) {
      if (tiles[i].sequence->weights != nullptr) {
        WeighTile(plan_, tiles[i], workspace_.Scratch(worker, scratch_bytes));
      }
    });
  }
}

void FlashAttention::PackAndAttendHead(int64_t index, int64_t kv_head, int worker) {
  const FlashSequence& sequence = sequences_[index];
  const int64_t keys = sequence.key.tokens;
  const size_t packed_bytes = PackedHeadBytes(plan_, keys);
  std::byte* scratch = workspace_.Scratch(worker, packed_bytes + TileScratchBytes(plan_));
  const PackedHead packed = HeadAt(scratch, keys);
  PackBlocks({index, 0, keys}, kv_head, packed);
  const int64_t group = sequence.query.num_heads / sequence.key.num_heads;
  for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    for (int64_t row = 0; row < sequence.query.tokens; row += kQueryTile) {
      const QueryTile tile{&sequence, packed, head, row,
                           std::min(kQueryTile, sequence.query.tokens - row)};
      AttendTile(plan_, tile, scratch + packed_bytes);
      if (sequence.weights != nullptr) {
        WeighTile(plan_, tile, scratch + packed_bytes);
      }
    }
  }
}

void FlashAttention::PackAndAttend() {
  const int64_t kv_heads = sequences_.front().key.num_heads;
  const int64_t num_heads = std::ssize(sequences_) * kv_heads;
  int64_t longest = 0;
  for (const FlashSequence& sequence : sequences_) {
    longest = std::max(longest, sequence.key.tokens);
  }
  const int threads = workspace_.pool().num_threads();
  if (PackedHeadBytes(plan_, longest) <= kPrivateHeadBytes &&
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
    all_keys.push_back({index, 0, sequence.key.tokens});
    all_rows.push_back({index, 0, sequence.query.tokens});
  }
  PackKeys(all_keys);
  Attend(all_rows);
}

}  // namespace attention
