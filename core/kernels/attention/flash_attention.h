// Fused attention by online softmax over packed keys and values.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "core/kernels/attention/head_tiles.h"
#include "core/kernels/attention/linear_attention.h"
#include "core/kernels/attention/pack_keys.h"
#include "core/kernels/attention/query_tile.h"
#include "core/runtime/slices.h"
#include "core/runtime/workspace.h"
#include "core/tensor/ragged.h"
#include "core/tensor/tensor.h"

namespace attention {

/// Attention over a ragged batch, stage by stage. All sequences share head counts, widths and
/// dtypes. The keys of a cache are already packed.
///
/// Packing. The keys of each key/value head are packed as transposed key blocks, its values as rows
/// (f32: in panels; bf16: as interleaved pairs of rows).
///
/// Bits. An output row depends on its own inputs only: key sections and key tiles begin at
/// multiples of their size from the first key of the sequence, and every sum adds in the order of
/// the keys (see Gemm).
///
/// Memory. Packed rows are padded to the width that products need, and packed keys to whole key
/// blocks, so a short sequence or a narrow head takes many times more memory packed than unpacked.
/// A stage therefore packs only some heads at a time: their packed size is at most kPackedBytes or
/// kMostPadding times the unpacked size of the stage's keys and values, whichever is more, but at
/// least one head is packed. A sequence keeps its packed keys and values from stage to stage only
/// if they take at most kMostPadding times their unpacked size (Expect). Others are packed again in
/// every stage, so their stages should be long (LeastStageRows). Keys that one query tile alone
/// needs are packed a key tile at a time.
class FlashAttention {
 public:
  static constexpr int64_t kPackedBytes = 16 << 20;
  static constexpr int64_t kMostPadding = 2;

  /// Borrows the sequences, and `rotations` if that is not null: tables to share with other calls.
  /// One object at a time may use a workspace.
  FlashAttention(std::span<const FlashSequence> sequences, Workspace& workspace,
                 RotaryTables* rotations = nullptr);

  /// Returns how many rows of a sequence a stage should have at least. Keys of narrow heads, which
  /// are packed again in every stage, are packed at most some 16 times then.
  int64_t LeastStageRows() const;

  /// Announces the later stages. Long sequences, and sequences of several stages, then keep their
  /// packed keys and sums from stage to stage, unless these are too large; all others are packed
  /// again in every stage. Called at most once.
  void Expect(std::span<const Stage> stages);

  /// Packs the keys and values of the stage's row ranges, each of which starts at a multiple of
  /// kKeyBlock, of the sequences that keep them. Between slices another object may be used, with
  /// another workspace. CANCELLED when the caller wants no more slices. Without Expect no
  /// sequence keeps them, and this does nothing.
  absl::Status PackKeys(const Stage& stage, const Slices& slices = {});

  /// Computes everything that the sequences request for the query rows of the stage, in slices as
  /// PackKeys. The rows of a sequence must come in order from call to call. REQUIRES: after
  /// Expect, PackKeys was called for the visible keys.
  absl::Status Attend(const Stage& stage, const Slices& slices = {});

  /// Returns the number n such that the rows of `range` attend to keys [0, n) only.
  int64_t KeysNeeded(const RowRange& range) const;

  /// Computes all rows as one stage.
  absl::Status AttendAll(const Slices& slices = {});

 private:
  /// A sequence with the state of its computation.
  struct Prepared {
    FlashSequence sequence;
    const AttentionPlan* plan;
    SequenceRotations rotations = {};      // if the sequence is rotary
    bool keeps = false;                    // its heads and states
    std::vector<HeadPage> heads = {};      // by key/value head, kept
    std::vector<LinearState> states = {};  // by key/value head, of linear attention, kept

    bool is_linear() const { return sequence.options.similarity == Similarity::kLinear; }
    bool is_cached() const { return sequence.cached.has_value(); }
    int64_t num_kv_heads() const { return sequence.key.num_heads; }
    HeadLayout LayOut(int64_t keys) const {
      return LayOutHead(*plan, sequence.options.similarity, keys);
    }
    int64_t OwnBytes() const;
    int64_t KeptBytes() const;
    bool MayKeep() const { return KeptBytes() <= kMostPadding * OwnBytes(); }
  };
  /// Who packs the keys and values to which the rows of a sequence attend in a stage.
  enum class Packer {
    kCache,     // nobody: a cache holds them packed
    kPackKeys,  // PackKeys has packed them, and they are kept from stage to stage
    kStage,     // the stage, before it computes the query tiles
    kTile,      // the query tile that alone needs them, a key tile at a time
  };
  /// The rows of one sequence in a stage.
  struct StageRows {
    RowRange range;
    Packer packer = Packer::kCache;
    int64_t keys = 0;  // [0, keys) are packed in this stage

    /// Returns whether the keys are packed in this stage, and for it alone.
    bool packs() const { return packer == Packer::kStage || packer == Packer::kTile; }
  };
  /// The rows of a stage that attend to one key/value head.
  struct HeadWork {
    const StageRows* rows = nullptr;
    int64_t kv_head = 0;
    HeadPage page = {};  // of the keys, with Packer::kStage
  };

  void MakeRotations(RotaryTables& tables);
  void Keep(Prepared& prepared, std::byte* memory) const;
  PackedHead HeadOf(const Prepared& prepared, const HeadWork& work) const;
  QueryTile TileOf(const Prepared& prepared, const PackedHead& packed) const;
  KeysToPack KeysOf(const RowRange& keys, int64_t kv_head, const HeadPage& page) const;
  absl::Status Pack(std::span<const KeysToPack> heads, const Slices& slices) const;
  bool TilesPack(const RowRange& range) const;
  StageRows StageRowsOf(const RowRange& range) const;
  int64_t OwnBytes(std::span<const StageRows> stage) const;
  double HeadFlops(const StageRows& rows) const;
  absl::Status AttendInPasses(std::span<const StageRows> stage, const Slices& slices);
  absl::Status AttendPass(std::span<HeadWork> pass, int64_t packed_bytes, const Slices& slices);
  void AppendTiles(const HeadWork& work, std::vector<QueryTile>& tiles) const;
  absl::Status AttendTiles(std::span<const QueryTile> tiles, const Slices& slices);
  double LinearFlops(const HeadWork& work) const;
  absl::Status AttendLinear(std::span<const HeadWork> pass, const Slices& slices);
  void AttendLinearHead(const HeadWork& work, int worker);
  bool CanPackPrivately(std::span<const StageRows> stage, const Slices& slices) const;
  absl::Status AttendPrivately(std::span<const StageRows> stage, const Slices& slices);
  HeadTiles TilesOf(std::span<const StageRows> stage, int64_t index) const;
  void PackAndAttendHead(std::span<const StageRows> stage, int64_t index, bool prefetches,
                         int worker);

  std::vector<Prepared> prepared_;  // one for each sequence
  Workspace& workspace_;
  RotaryTables own_rotations_;
  size_t tile_scratch_bytes_ = 0;
};

}  // namespace attention
