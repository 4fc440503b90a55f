// The kernels of the matrix products of attention for one head width, found without hashing.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "core/kernels/gemm/gemm.h"
#include "core/kernels/tile/key_block.h"
#include "core/runtime/round_up.h"
#include "core/tensor/dtype.h"

namespace attention {

/// The largest head width.
inline constexpr int64_t kMaxHeadDim = 512;

/// The number of query rows of a query tile, and of keys of a key tile: one step of online softmax.
inline constexpr int64_t kQueryTile = 64;
inline constexpr int64_t kKeyTile = 512;

/// The keys of a key section. Sums over a section are computed apart from those of other sections
/// and then added in the order of the keys, whether one thread computes them or several.
inline constexpr int64_t kKeySection = 4 * kKeyTile;

/// The number of dimensions of query . key, and of keys of the weighted sum, in one chain of
/// multiply-adds. The chains are added up. Short chains round less.
inline constexpr int64_t kScoreChain = 128;
static_assert(kMaxHeadDim % kScoreChain == 0, "AttentionPlan has products of whole chains alone");
inline constexpr int64_t kSumChain = 256;

/// Along the diagonal of a causal mask, kRowGroup rows are computed at a time and keys in multiples
/// of kKeyStep, so that few hidden scores are computed.
inline constexpr int64_t kRowGroup = 32;
inline constexpr int64_t kKeyStep = 32;
/// The multiple of keys that few-row products compute, but for those with the bits of a matrix
/// unit.
inline constexpr int64_t kFewRowKeyStep = 16;

/// The distance of score rows in floats. It is not a power of two, so that the elements of a
/// column fall into different cache sets.
inline constexpr int64_t kScoreStride = kKeyTile + 16;

/// The kernels of the two products, which are generated at first use. A caller finds and uses them
/// while it holds a KernelLease. Thread-safe; a plan lives until the process ends.
class AttentionPlan {
 public:
  /// Returns the plan for the widths of a head. `compute` is a result of ComputeDtype.
  static const AttentionPlan& Get(Dtype compute, int64_t head_dim, int64_t value_head_dim);

  AttentionPlan(Dtype compute, int64_t head_dim, int64_t value_head_dim);

  /// Forgets all kernels. REQUIRES: no KernelLease lives.
  void ForgetKernels();

  Dtype compute() const { return compute_; }
  /// Returns the widths in packed memory, rounded up so that few kernels serve all widths. The
  /// padding is zero.
  int64_t depth() const { return depth_; }
  int64_t value_width() const { return value_width_; }
  /// Returns the number of columns of a panel of values that no cache holds: 32 where oneDNN's f32
  /// products take 32 columns at a time, otherwise value_width.
  int64_t panel_columns() const { return panel_columns_; }

  /// Returns the number of elements of a packed block of kKeyBlock keys, and of their values.
  int64_t key_block_elements() const { return depth_ * kKeyBlock; }
  int64_t value_block_elements() const { return value_width_ * kKeyBlock; }

  /// Returns the width of a head in packed memory.
  static int64_t PaddedWidth(int64_t width) { return RoundUp(width, kWidthMultiple); }

  /// Returns the smallest number of tile rows, >= rows, for which kernels exist.
  static int64_t PaddedRows(int64_t rows);

  /// Returns the product scores[rows, keys] (row stride kScoreStride) (+)= query[rows,
  /// first_depth...] block[first_depth..., keys] over the chain of up to kScoreChain dimensions
  /// that starts at `first_depth`. The first chain overwrites the scores, later chains add to them.
  /// `keys` is a multiple of kKeyStep, at most kKeyBlock.
  const Gemm& Score(int64_t padded_rows, int64_t keys, int64_t first_depth) const;
  /// Returns the product accumulator[rows, value_width] (+)= probabilities[rows, keys] (row stride
  /// kScoreStride) values[keys, value_width]. `keys` is a multiple of kKeyStep, at most kSumChain.
  const Gemm& WeightedSum(int64_t padded_rows, int64_t keys, bool accumulate) const;
  /// Returns the same product for the panel_columns() columns of one panel of values.
  const Gemm& PanelSum(int64_t padded_rows, int64_t keys, bool accumulate) const;

  /// Returns the products for 8-bit operands: queries u8 [rows, depth], probabilities u8 (stride
  /// kScoreStride), int32 results; Score takes all dimensions and kKeyBlock keys at once.
  const Gemm& Int8Score(int64_t padded_rows) const;
  const Gemm& Int8WeightedSum(int64_t padded_rows, int64_t keys, bool accumulate) const;

 private:
  static constexpr int64_t kWidthMultiple = 16;
  /// Kernels exist for 1, 2, and the multiples of kRowStep rows up to a query tile.
  static constexpr int64_t kRowStep = 4;
  static constexpr int64_t SizeIndex(int64_t padded_rows) {
    return padded_rows > 2 ? padded_rows / kRowStep + 1 : padded_rows - 1;
  }
  static constexpr int64_t kNumSizes = kQueryTile / kRowStep + 2;
  using Slot = std::atomic<const Gemm*>;
  template <int64_t kMaxKeys>
  using SlotsByKeys = std::array<std::array<Slot, kMaxKeys / kKeyStep>, kNumSizes>;

  static const Gemm& Find(Slot& slot, const GemmShape& shape);
  GemmShape SumShape(int64_t padded_rows, int64_t keys, bool accumulate) const;

  Dtype compute_;
  int64_t depth_;
  int64_t value_width_;
  int64_t panel_columns_;
  mutable std::array<SlotsByKeys<kKeyBlock>, kMaxHeadDim / kScoreChain> score_{};  // by chain
  mutable SlotsByKeys<kSumChain> first_sum_{};
  mutable SlotsByKeys<kSumChain> next_sum_{};
  mutable SlotsByKeys<kSumChain> first_panel_sum_{};
  mutable SlotsByKeys<kSumChain> next_panel_sum_{};
  mutable std::array<Slot, kNumSizes> int8_score_{};
  mutable SlotsByKeys<kSumChain> int8_first_sum_{};
  mutable SlotsByKeys<kSumChain> int8_next_sum_{};
};

}  // namespace attention
