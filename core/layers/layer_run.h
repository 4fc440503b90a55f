// One call of an attention layer. Internal to core/layers.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/kernels/flash_attention.h"
#include "core/layers/extra_keys.h"
#include "core/layers/multi_head_attention.h"

namespace attention {

/// A linear map of a layer: part `part` of `linear`.
struct Projection {
  const PackedLinear* linear = nullptr;
  int64_t part = 0;
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
  LayerRun(const MultiHeadAttention::State& layer, const LayerCall& call, Workspace& workspace);

  absl::Status Run();

 private:
  using Slot = Workspace::Slot;

  MatrixView ToCompute(const MatrixView& rows, Slot slot);
  MutableMatrixView Reserve(Slot slot, int64_t rows, int64_t cols);
  int64_t KvLen(const LayerSequence& sequence) const;
  int64_t FirstKey(int64_t sequence) const { return first_keys_[sequence]; }
  void PlaceKeys();
  std::vector<FlashSequence> FlashSequences();
  void ProjectMemory();
  void ProjectMemoryPart(const Projection& projection, int64_t parts, const MatrixView& input,
                         int64_t column);
  void Project(int64_t first, int64_t end);
  /// Packs the keys that rows [first, end) became.
  void PackKeysOf(int64_t first, int64_t end);
  absl::Status RunInStages();
  /// End of the hidden rows that must be projected before `stage` can attend.
  int64_t NeededRows(const Stage& stage) const;
  void ProjectOutput(const Stage& stage);

  const MultiHeadAttention::State& layer_;
  const LayerCall& call_;
  Workspace& workspace_;
  /// Self-attention over the rows of the one product.
  const bool is_fused_;
  MatrixView hidden_states_;  // of the compute type
  MutableMatrixView projected_;
  MutableMatrixView key_value_;      // columns of projected_ when fused
  int64_t value_column_ = 0;         // in key_value_
  std::vector<int64_t> first_keys_;  // [sequences + 1] rows in key_value_
  MutableMatrixView context_;
  std::vector<ExtendedOptions> options_;
  std::optional<FlashAttention> flash_;
};

}  // namespace attention
