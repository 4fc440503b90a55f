// One call of an attention layer. Internal to core/layers.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/kernels/flash_attention.h"
#include "core/layers/cached_keys.h"
#include "core/layers/extra_keys.h"
#include "core/layers/multi_head_attention.h"

namespace attention {

/// A linear map of a layer: part `part` of `linear`.
struct Projection {
  const PackedLinear* linear = nullptr;
  int64_t part = 0;
};

/// Floating point operations of a layer's parts: the one place that counts them.
struct LayerFlops {
  explicit LayerFlops(const MultiHeadAttentionShape& shape);

  double query = 0;   // of a row of hidden states
  double key = 0;     // of a row that keys and values are made of
  double output = 0;  // of a row
  double pair = 0;    // of a row and a key that it sees
};

struct MultiHeadAttention::State {
  State(const MultiHeadAttentionShape& shape, const MultiHeadAttentionWeights& weights,
        WeightsDtype dtype);

  /// Keys and values are parts of the product that makes queries, and stay where it leaves them.
  bool is_fused() const { return key.linear == projection.get(); }

  MultiHeadAttentionShape shape;
  WeightsDtype weights_dtype;
  Dtype compute;
  ExtraKeys extra;
  std::unique_ptr<PackedLinear> projection;  // query; where widths are equal also key and value
  std::unique_ptr<PackedLinear> memory_projection;  // key and value of another width, or null
  std::unique_ptr<PackedLinear> value_projection;   // value of yet another width, or null
  std::unique_ptr<PackedLinear> output;
  Projection key, value;
};

class LayerRun {
 public:
  /// REQUIRES: cached.Reserve() was OK.
  LayerRun(const MultiHeadAttention::State& layer, const LayerCall& call, const CachedKeys& cached,
           Workspace& workspace);

  absl::Status Run();

 private:
  using Slot = Workspace::Slot;

  MatrixView ToCompute(const MatrixView& rows, Slot slot);
  MutableMatrixView Reserve(Slot slot, int64_t rows, int64_t cols);
  /// Rows that the sequence's keys are made of.
  int64_t KeyRows(const LayerSequence& sequence) const;
  int64_t FirstKey(int64_t sequence) const { return first_keys_[sequence]; }
  void PlaceKeys();
  std::vector<FlashSequence> FlashSequences();
  absl::Status ProjectMemory();
  absl::Status ProjectMemoryPart(const Projection& projection, int64_t parts,
                                 const MatrixView& input, int64_t column);
  void Project(int64_t first, int64_t end);
  /// The sequences' parts of rows [first, end).
  Stage PiecesOf(int64_t first, int64_t end) const;
  /// Appends the pieces' keys and values to the caches of their sequences.
  absl::Status CacheKeys(const Stage& pieces);
  /// Whether the whole call may be one slice.
  bool FitsOneSlice() const;
  absl::Status RunInOneStage();
  absl::Status RunInStages();
  std::vector<Stage> Stages() const;
  absl::Status PackMemoryKeys();
  /// Projects rows up to `end`, and keeps their keys.
  absl::Status ProjectUntil(int64_t end);
  /// The keys that a row of the sequence sees, at most.
  int64_t KeysSeen(int64_t sequence) const;
  /// Of a row of the sequence that attends and is projected, at most.
  double RowFlops(int64_t sequence) const;
  /// End of the hidden rows that must be projected before `stage` can attend.
  int64_t NeededRows(const Stage& stage) const;
  void ProjectOutput(const Stage& stage);

  const MultiHeadAttention::State& layer_;
  const LayerCall& call_;
  const CachedKeys& cached_;
  Workspace& workspace_;
  const LayerFlops flops_;
  /// Self-attention over the rows of the one product.
  const bool is_fused_;
  MatrixView hidden_states_;  // of the compute type
  MutableMatrixView projected_;
  MutableMatrixView key_value_;      // columns of projected_ when fused
  HeadsView key_, value_;            // the same
  int64_t value_column_ = 0;         // in key_value_
  std::vector<int64_t> first_keys_;  // [sequences + 1] rows in key_value_
  int64_t projected_rows_ = 0;       // of hidden_states_, in stages
  MutableMatrixView context_;
  std::vector<ExtendedOptions> options_;
  std::optional<FlashAttention> flash_;
};

}  // namespace attention
