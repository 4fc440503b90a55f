// The matrix products that attention of one head width needs, looked up without hashing.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "core/kernels/onednn/gemm.h"
#include "core/kernels/tile/tile_kernels.h"
#include "core/tensor/dtype.h"

namespace attention {

/// Widest head.
inline constexpr int64_t kMaxHeadDim = 512;

/// Rows of query that share a tile, and keys that share one step of online softmax.
inline constexpr int64_t kQueryTile = 64;
inline constexpr int64_t kKeyTile = 512;

/// Dimensions of query . key, and keys of the weighted sum, that one chain of multiply-adds takes;
/// the chains are added up. Short chains round less.
inline constexpr int64_t kScoreChunk = 128;
inline constexpr int64_t kSumChunk = 256;

/// Along the diagonal of a causal mask, rows are taken kRowGroup at a time and keys in multiples of
/// kKeyStep, so that little is computed that no row sees.
inline constexpr int64_t kRowGroup = 32;
inline constexpr int64_t kKeyStep = 32;

/// Distance of score rows in floats: not a power of two, so that a column's rows fall into
/// different cache sets.
inline constexpr int64_t kScoreStride = kKeyTile + 16;

constexpr int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// Kernels of the two products, generated when first used; found under a KernelLease, and used no
/// longer. Thread-safe; a plan lives until the process ends.
class AttentionPlan {
 public:
  /// The plan of a head's widths. `compute` is a result of ComputeDtype.
  static const AttentionPlan& Get(Dtype compute, int64_t head_dim, int64_t value_head_dim);

  AttentionPlan(Dtype compute, int64_t head_dim, int64_t value_head_dim);

  /// REQUIRES: no KernelLease lives.
  void ForgetKernels();

  Dtype compute() const { return compute_; }
  /// Widths in packed memory: rounded up so that few kernels serve all widths; the excess is zero.
  int64_t depth() const { return depth_; }
  int64_t value_width() const { return value_width_; }

  /// Elements of a packed block of kKeyBlock keys, and of their values.
  int64_t key_block_elements() const { return depth_ * kKeyBlock; }
  int64_t value_block_elements() const { return value_width_ * kKeyBlock; }

  /// Width that a head takes in packed memory.
  static int64_t PaddedWidth(int64_t width) { return RoundUp(width, kWidthMultiple); }

  /// Smallest number of tile rows, >= rows, that has kernels.
  static int64_t PaddedRows(int64_t rows);

  /// scores[rows, keys] (row stride kScoreStride) (+)= query[rows, first_depth...]
  /// block[first_depth..., keys] over the chunk of up to kScoreChunk dimensions that starts at
  /// `first_depth`; the first chunk overwrites, later ones add. keys is a multiple of kKeyStep, at
  /// most kKeyBlock.
  const Gemm& Score(int64_t padded_rows, int64_t keys, int64_t first_depth) const;
  /// accumulator[rows, value_width] (+)= probabilities[rows, keys] (row stride kScoreStride)
  /// values[keys, value_width]; keys is a multiple of kKeyStep, at most kSumChunk.
  const Gemm& WeightedSum(int64_t padded_rows, int64_t keys, bool accumulate) const;

  /// The same for 8-bit operands: queries u8 [rows, depth], probabilities u8 (stride
  /// kScoreStride), int32 results; Score takes all dimensions and kKeyBlock keys at once.
  const Gemm& Int8Score(int64_t padded_rows) const;
  const Gemm& Int8WeightedSum(int64_t padded_rows, int64_t keys, bool accumulate) const;

 private:
  static constexpr int64_t kWidthMultiple = 16;
  static constexpr std::array<int64_t, 8> kRowSizes = {1, 2, 4, 8, 16, 32, 48, 64};
  using Slot = std::atomic<const Gemm*>;
  template <int64_t kMaxKeys>
  using SlotsByKeys = std::array<std::array<Slot, kMaxKeys / kKeyStep>, kRowSizes.size()>;

  static const Gemm& Find(Slot& slot, const GemmShape& shape);
  GemmShape SumShape(int64_t padded_rows, int64_t keys, bool accumulate) const;

  Dtype compute_;
  int64_t depth_;
  int64_t value_width_;
  mutable std::array<SlotsByKeys<kKeyBlock>, kMaxHeadDim / kScoreChunk> score_{};  // by chunk
  mutable SlotsByKeys<kSumChunk> first_sum_{};
  mutable SlotsByKeys<kSumChunk> next_sum_{};
  mutable std::array<Slot, kRowSizes.size()> int8_score_{};
  mutable SlotsByKeys<kSumChunk> int8_first_sum_{};
  mutable SlotsByKeys<kSumChunk> int8_next_sum_{};
};

}  // namespace attention
