// Fused attention by online softmax over packed keys and values.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/kernels/attention_tile.h"
#include "core/runtime/workspace.h"
#include "core/tensor/ragged.h"
#include "core/tensor/tensor.h"

namespace attention {

/// Attention over a ragged batch in two steps that may be repeated as rows become available:
/// PackKeys, then Attend for rows whose visible keys are packed. All sequences share head counts,
/// widths and dtypes; cached ones come packed.
///
/// Keys are packed per key/value head as blocks of kKeyBlock, transposed; values as rows (bf16:
/// interleaved pairs). The bits of a row depend only on the row, since tiles of keys are cut at
/// multiples of kKeyTile from the sequence's first key and every sum runs in key order (see Gemm).
class FlashAttention {
 public:
  /// `compute`: operand type of the products. Uses the workspace's kPackedKeyValue buffer while it
  /// lives.
  FlashAttention(std::vector<FlashSequence> sequences, Dtype compute, Workspace& workspace);

  /// Packs keys and values of `pieces`, each starting at a multiple of kKeyBlock.
  void PackKeys(std::span<const RowRange> pieces);

  /// Computes outputs (and weights, where asked for) of the query rows in `pieces`.
  void Attend(std::span<const RowRange> pieces);

  /// Both steps for all rows. Where there are enough heads to go round, a thread packs one head at
  /// a time into memory of its own and attends to it at once, while it is in the cache.
  void PackAndAttend();

 private:
  struct HeadMemory {
    HeadPage page;
    size_t bytes;
  };

  bool IsLinear() const { return sequences_.front().similarity == Similarity::kLinear; }
  HeadMemory LayOutHead(std::byte* first, int64_t keys) const;
  PackedHead HeadOf(int64_t sequence, int64_t kv_head) const;
  void PackBlocks(const RowRange& rows, int64_t kv_head, const HeadPage& page,
                  std::byte* scratch) const;
  QueryTile TileOf(int64_t sequence, const PackedHead& packed) const;
  void PackAndAttendHead(int64_t sequence, int64_t kv_head, int worker);
  size_t HeadScratchBytes(int64_t keys) const;
  void AppendTiles(const RowRange& piece, std::vector<QueryTile>& tiles) const;

  std::vector<FlashSequence> sequences_;
  const AttentionPlan& plan_;
  Workspace& workspace_;
  std::vector<SequenceRotations> rotations_;   // of each sequence, or empty
  std::vector<std::vector<HeadPage>> heads_;   // of each sequence, by key/value head
  size_t tile_scratch_bytes_ = 0;
};

}  // namespace attention
