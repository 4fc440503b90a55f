#include "core/kernels/linear/pack_weights.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/kernels/gemm/gemm.h"
#include "core/kernels/onednn/packed_index.h"
#include "core/kernels/tile/tile_kernels.h"
#include "core/runtime/aligned_buffer.h"
#include "core/tensor/tensor.h"

namespace attention {
namespace {

/// Rows of one dtype, dense or strided.
struct Rows {
  const void* data = nullptr;
  Dtype dtype = Dtype::kF32;
  int64_t stride = 0;
};

/// Gives `count` rows of `cols` elements in `dtype`: the source itself if it has this dtype, else a
/// copy.
class ConvertedRows {
 public:
  ConvertedRows(const Rows& source, int64_t count, int64_t cols, Dtype dtype) : rows_(source) {
    if (source.dtype == dtype) {
      return;
    }
    copy_.resize(count * cols * SizeOf(dtype));
    for (int64_t r = 0; r < count; ++r) {
      Convert(source.dtype, ElementAt(source.data, source.dtype, r * source.stride), dtype,
              ElementAt(copy_.data(), dtype, r * cols), cols);
    }
    rows_ = {copy_.data(), dtype, cols};
  }

  PackSource Source(int64_t rows, int64_t cols) const {
    return {rows_.data, rows_.dtype, rows_.stride, rows, cols};
  }

 private:
  Rows rows_;
  std::vector<std::byte> copy_;
};

/// Returns the weights of the block as f32 [count, in_features].
std::vector<float> Channels(const ChannelBlock& block) {
  const LinearWeights& w = block.weights;
  const int64_t depth = block.in_features;
  std::vector<float> channels(block.count * depth);
  if (!w.is_transposed) {
    for (int64_t c = 0; c < block.count; ++c) {
      Convert(w.dtype, ElementAt(w.data, w.dtype, (block.first + c) * w.stride), Dtype::kF32,
              &channels[c * depth], depth);
    }
    return channels;
  }
  float row[kColumnBlock];
  for (int64_t k = 0; k < depth; ++k) {
    Convert(w.dtype, ElementAt(w.data, w.dtype, k * w.stride + block.first), Dtype::kF32, row,
            block.count);
    for (int64_t c = 0; c < block.count; ++c) {
      channels[c * depth + k] = row[c];
    }
  }
  return channels;
}

float ScaleOf(const float* channel, int64_t depth) {
  float largest = 0;
  for (int64_t k = 0; k < depth; ++k) {
    largest = std::max(largest, std::abs(channel[k]));
  }
  return largest / 127.0f;
}

float ToInteger(float weight, float scale) {
  return scale > 0 ? std::nearbyint(weight / scale) : 0;
}

/// Divides a block of f32 rows, [depth][kColumnBlock], into panels.
void DivideIntoPanels(int64_t depth, float* block) {
  const int64_t columns = PanelColumns();
  if (columns == kColumnBlock) {
    return;
  }
  const std::vector<float> rows(block, block + depth * kColumnBlock);
  float* target = block;
  for (int64_t first = 0; first < kColumnBlock; first += columns) {
    for (int64_t k = 0; k < depth; ++k, target += columns) {
      std::copy_n(&rows[k * kColumnBlock + first], columns, target);
    }
  }
}

/// Packs the weights after rounding to 8 bits as the f32 numbers that the integers represent.
void PackRoundedToInt8(const ChannelBlock& block, std::byte* target) {
  std::vector<float> channels = Channels(block);
  const int64_t depth = block.in_features;
  for (int64_t c = 0; c < block.count; ++c) {
    float* channel = &channels[c * depth];
    const float scale = ScaleOf(channel, depth);
    std::transform(channel, channel + depth, channel,
                   [scale](float weight) { return ToInteger(weight, scale) * scale; });
  }
  CurrentTileKernels().pack_transposed({channels.data(), Dtype::kF32, depth, block.count, depth},
                                       Dtype::kF32, depth, target);
}

/// Packs the weights after rounding as f32 [in_features][kColumnBlock] or bf16 pairs of rows.
void PackRounded(const ChannelBlock& block, WeightsDtype rounding, Dtype packed,
                 std::byte* target) {
  const LinearWeights& w = block.weights;
  const int64_t depth = block.in_features;
  const Dtype rounded = rounding == WeightsDtype::kBf16 ? Dtype::kBf16 : w.dtype;
  if (!w.is_transposed) {
    const Rows rows{ElementAt(w.data, w.dtype, block.first * w.stride), w.dtype, w.stride};
    const ConvertedRows converted(rows, block.count, depth, rounded);
    CurrentTileKernels().pack_transposed(converted.Source(block.count, depth), packed, depth,
                                         target);
    return;
  }
  // pack_rows always writes kKeyBlock inputs, of which the last call may have fewer: it writes to a
  // buffer first.
  AlignedBuffer buffer(kKeyBlock * kColumnBlock * SizeOf(packed));
  for (int64_t k = 0; k < depth; k += kKeyBlock) {
    const int64_t inputs = std::min(kKeyBlock, depth - k);
    const Rows rows{ElementAt(w.data, w.dtype, k * w.stride + block.first), w.dtype, w.stride};
    const ConvertedRows converted(rows, inputs, block.count, rounded);
    CurrentTileKernels().pack_rows(converted.Source(inputs, block.count), packed, kColumnBlock,
                                   buffer.data());
    std::copy_n(buffer.data(), inputs * kColumnBlock * SizeOf(packed),
                target + k * kColumnBlock * SizeOf(packed));
  }
}

}  // namespace

void PackBlock(const ChannelBlock& block, WeightsDtype rounding, Dtype packed, std::byte* target) {
  if (rounding == WeightsDtype::kInt8) {
    PackRoundedToInt8(block, target);
  } else {
    PackRounded(block, rounding, packed, target);
  }
  if (packed == Dtype::kF32) {
    DivideIntoPanels(block.in_features, reinterpret_cast<float*>(target));
  }
}

void PackBlockInt8(const ChannelBlock& block, std::byte* target) {
  const int64_t depth = block.in_features;
  const std::vector<float> channels = Channels(block);
  std::fill_n(target, Int8BlockBytes(depth), std::byte{0});
  auto* integers = reinterpret_cast<int8_t*>(target);
  auto* scales = const_cast<float*>(Int8Scales(target, depth));
  for (int64_t c = 0; c < block.count; ++c) {
    const float* channel = &channels[c * depth];
    const float scale = ScaleOf(channel, depth);
    float sum = 0;  // exact: kMaxInt8Features integers stay below 2^24
    for (int64_t k = 0; k < depth; ++k) {
      const float integer = ToInteger(channel[k], scale);
      // Of a channel that is not finite, the sum makes every result NaN.
      integers[PackedIndex(k, c, kColumnBlock, 4)] =
          std::isfinite(integer) ? static_cast<int8_t>(integer) : int8_t{0};
      sum += integer;
    }
    scales[c] = scale;
    scales[kColumnBlock + c] = 128.0f * sum;
  }
}

}  // namespace attention
