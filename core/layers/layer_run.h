// One call of an attention layer. Internal to core/layers.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/kernels/attention/flash_attention.h"
#include "core/kernels/linear/linear.h"
#include "core/layers/cached_keys.h"
#include "core/layers/extra_keys.h"
#include "core/layers/layer_call.h"
#include "core/runtime/slices.h"

namespace attention {

/// A linear map of a layer: part `part` of `linear`.
struct Projection {
  const PackedLinear* linear = nullptr;
  int64_t part = 0;
};

/// The floating point operations of a layer's parts. They are counted here and nowhere else.
struct LayerFlops {
  explicit LayerFlops(const MultiHeadAttentionShape& shape);

  double query = 0;   // to project a row of hidden states to a query
  double key = 0;     // to project a row to a key and a value
  double output = 0;  // to project a row of results to the output
  double pair = 0;    // to attend with a row to a key
};

/// The packed weights of a layer.
struct LayerState {
  LayerState(const MultiHeadAttentionShape& shape, const MultiHeadAttentionWeights& weights,
             WeightsDtype dtype);

  /// Returns whether one product computes queries, keys and values, which then stay in its result.
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

/// Runs one call.
class LayerRun {
 public:
  /// Borrows everything. REQUIRES: cached.Reserve() was OK.
  LayerRun(const LayerState& layer, const LayerCall& call, const CachedKeys& cached,
           Workspace& workspace);

  absl::Status Run();

 private:
  MatrixView ToCompute(const MatrixView& rows, const BufferName& name);
  MutableMatrixView Reserve(const BufferName& name, int64_t rows, int64_t cols);
  /// Returns the number of rows from which the sequence's keys are computed.
  int64_t KeyRows(const LayerSequence& sequence) const;
  int64_t FirstKey(int64_t sequence) const { return first_keys_[sequence]; }
  /// Decides which rows and columns of key_value_ hold the keys and values of each sequence.
  void LayOutKeys();
  std::vector<FlashSequence> FlashSequences();
  absl::Status ProjectMemory();
  absl::Status ProjectMemoryPart(const Projection& projection, int64_t parts,
                                 const MatrixView& input, int64_t column);
  void Project(int64_t first, int64_t end);
  /// Returns the row ranges of the sequences within rows [first, end) of the call.
  Stage RowRangesOf(int64_t first, int64_t end) const;
  /// Appends the keys and values of the row ranges to the caches of their sequences.
  absl::Status CacheKeys(const Stage& ranges);
  /// Returns whether the whole call fits into one slice.
  bool FitsOneSlice() const;
  absl::Status RunInOneStage();
  absl::Status RunInStages();
  std::vector<Stage> Stages() const;
  Slices slices() const;
  absl::Status PackMemoryKeys();
  /// Projects the rows up to `end`, and appends their keys to the caches.
  absl::Status ProjectUntil(int64_t end);
  /// Returns an upper bound of the number of keys that a row of the sequence attends to.
  int64_t MaxKeys(int64_t sequence) const;
  /// Returns the most floating point operations to attend with a row of the sequence and to project
  /// its result.
  double RowFlops(int64_t sequence) const;
  /// Returns the end of the rows that must be projected before `stage` can attend.
  int64_t NeededRows(const Stage& stage) const;
  void ProjectOutput(const Stage& stage);

  const LayerState& layer_;
  const LayerCall& call_;
  const CachedKeys& cached_;
  Workspace& workspace_;
  const LayerFlops flops_;
  /// Whether this is self-attention over the rows of one product.
  const bool is_fused_;
  MatrixView hidden_states_;         // of the compute type
  MutableMatrixView projected_;      // queries; also keys and values if is_fused_
  MutableMatrixView key_value_;      // keys and values: columns of projected_ if is_fused_
  HeadsView key_, value_;            // the heads of key_value_
  int64_t value_column_ = 0;         // in key_value_
  std::vector<int64_t> first_keys_;  // [sequences + 1] rows in key_value_
  int64_t projected_rows_ = 0;       // of hidden_states_, in stages
  MutableMatrixView context_;
  std::vector<ExtendedOptions> options_;
  std::optional<FlashAttention> flash_;
};

}  // namespace attention
