// Fused attention by online softmax over packed keys and values.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/kernels/attention/linear_attention.h"
#include "core/kernels/attention/query_tile.h"
#include "core/runtime/workspace.h"
#include "core/tensor/ragged.h"
#include "core/tensor/tensor.h"

namespace attention {

/// Attention over a ragged batch in two steps, which may be repeated as rows become available:
/// PackKeys, then Attend for rows whose visible keys are packed. All sequences share head counts,
/// widths and dtypes. The keys of a cache are already packed.
///
/// The keys of each key/value head are packed as key blocks, transposed; its values as rows (bf16:
/// interleaved pairs of rows). The bits of a row depend on that row only, since key
/// sections and key tiles begin at multiples of their size from the first key of the sequence, and
/// every sum runs in the order of the keys (see Gemm).
class FlashAttention {
 public:
  /// Borrows the sequences, and `rotations` if that is not null: tables to share with other calls.
  /// One object at a time may use a workspace.
  FlashAttention(std::span<const FlashSequence> sequences, Workspace& workspace,
                 RotaryTables* rotations = nullptr);

  /// Packs the keys and values of the stage's row ranges, each of which starts at a multiple of
  /// kKeyBlock.
  void PackKeys(const Stage& stage);

  /// Computes everything that the sequences request for the query rows of the stage. The rows of a
  /// sequence must come in order from call to call.
  void Attend(const Stage& stage);

  /// The number n such that the rows of `range` attend to keys [0, n) only.
  int64_t KeysNeeded(const RowRange& range) const;

  /// Does both steps for all rows. When there are enough heads for all threads, a thread packs one
  /// head at a time into its own memory and attends to it at once, while it is in the CPU cache.
  void PackAndAttend();

 private:
  /// A sequence with the state of its computation.
  struct Prepared {
    FlashSequence sequence;
    const AttentionPlan* plan;
    SequenceRotations rotations = {};      // if the sequence is rotary
    std::vector<HeadPage> heads = {};      // by key/value head, once packed
    std::vector<LinearState> states = {};  // by key/value head, of linear attention

    bool is_linear() const { return sequence.options.similarity == Similarity::kLinear; }
    bool needs_packing() const { return !sequence.cached.has_value(); }
    int64_t num_kv_heads() const { return sequence.key.num_heads; }
  };

  void MakeRotations(RotaryTables& tables);
  void ReserveHeads();
  PackedHead HeadOf(const Prepared& prepared, int64_t kv_head) const;
  QueryTile TileOf(const Prepared& prepared, const PackedHead& packed) const;
  void PackBlocks(const Prepared& prepared, const RowRange& rows, int64_t kv_head,
                  const HeadPage& page, std::byte* scratch) const;
  void AppendTiles(const RowRange& range, std::vector<QueryTile>& tiles) const;
  void AttendLinear(const Stage& stage);
  void PackAndAttendHead(const Prepared& prepared, int64_t kv_head, int worker);
  bool CanPackPrivately() const;

  std::vector<Prepared> prepared_;  // one for each sequence
  Workspace& workspace_;
  RotaryTables own_rotations_;
  size_t tile_scratch_bytes_ = 0;
  bool has_reserved_ = false;
};

}  // namespace attention
