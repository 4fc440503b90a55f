#include "core/kernels/flash_attention.h"

#include <algorithm>
#include <utility>

#include "core/kernels/tile/tile_kernels.h"

namespace attention {
namespace {

/// Keys that one packing task takes.
constexpr int64_t kPackRows = kKeyTile;

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
      workspace_(workspace) {
  size_t bytes = 0;
  for (const FlashSequence& sequence : sequences_) {
    first_head_bytes_.push_back(bytes);
    bytes += sequence.key.num_heads * PackedHeadBytes(plan_, sequence.key.tokens);
  }
  packed_ = workspace.Buffer(Workspace::kPackedKeyValue, bytes);
}

PackedHead FlashAttention::HeadOf(int64_t sequence, int64_t kv_head) const {
  const int64_t keys = sequences_[sequence].key.tokens;
  const int64_t blocks = NumBlocks(keys);
  const size_t element_bytes = SizeOf(plan_.compute());
  std::byte* head = packed_ + first_head_bytes_[sequence] + kv_head * PackedHeadBytes(plan_, keys);
  std::byte* values = head + blocks * plan_.key_block_elements() * element_bytes;
  std::byte* flags = values + blocks * plan_.value_block_elements() * element_bytes;
  return {head, values, reinterpret_cast<uint8_t*>(flags)};
}

void FlashAttention::PackBlocks(const RowRange& range, int64_t kv_head) {
  const TileKernels& kernels = CurrentTileKernels();
  const FlashSequence& sequence = sequences_[range.sequence];
  const PackedHead head = HeadOf(range.sequence, kv_head);
  const size_t element_bytes = SizeOf(plan_.compute());
  for (int64_t row = range.first_row; row < range.first_row + range.rows; row += kKeyBlock) {
    const int64_t rows = std::min(kKeyBlock, range.first_row + range.rows - row);
    const int64_t block = row / kKeyBlock;
    kernels.pack_transposed(SourceRows(sequence.key, row, rows, kv_head), plan_.compute(),
                            plan_.depth(),
                            head.keys + block * plan_.key_block_elements() * element_bytes);
    head.values_are_finite[block] = kernels.pack_rows(
        SourceRows(sequence.value, row, rows, kv_head), plan_.compute(), plan_.value_width(),
        head.values + block * plan_.value_block_elements() * element_bytes);
  }
}

void FlashAttention::PackKeys(std::span<const RowRange> pieces) {
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
    PackBlocks(tasks[i].first, tasks[i].second);
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
      for (int64_t row = (piece.rows - 1) / kQueryTile * kQueryTile; row >= 0; row -= kQueryTile) {
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

}  // namespace attention
