// Packs one block of kColumnBlock output channels of a linear map for the products.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/kernels/linear/linear_weights.h"

namespace attention {

/// A block: channels [first, first + count) of weights with `in_features` inputs.
struct ChannelBlock {
  LinearWeights weights;  // with a stride, also where they are dense
  int64_t in_features = 0;
  int64_t first = 0;
  int64_t count = 0;  // <= kColumnBlock; the rest is packed as zeros
};

/// Writes the block to `target` as f32 panels, each [in_features][PanelColumns()], or as bf16
/// [in_features / 2][kColumnBlock][2]. The weights are rounded to `rounding` first.
void PackBlock(const ChannelBlock& block, WeightsDtype rounding, Dtype packed, std::byte* target);

/// The depth of a block of 8-bit weights: in_features rounded up to a multiple of 4.
constexpr int64_t Int8Depth(int64_t in_features) { return (in_features + 3) / 4 * 4; }
constexpr size_t Int8BlockBytes(int64_t in_features) {
  return Int8Depth(in_features) * kColumnBlock + 2 * kColumnBlock * sizeof(float);
}
/// Returns the numbers behind the s8 [in_features / 4][kColumnBlock][4]: the scale of each channel,
/// then 128 times the sum of its integers.
inline const float* Int8Scales(const std::byte* block, int64_t in_features) {
  return reinterpret_cast<const float*>(block + Int8Depth(in_features) * kColumnBlock);
}
/// Writes the block to `target`, Int8BlockBytes(in_features), with the numbers of Int8Scales behind
/// it. Rounds each channel to 8 bits with a scale of its own.
void PackBlockInt8(const ChannelBlock& block, std::byte* target);

}  // namespace attention
