// How PackedLinear holds its weights: in which form, in blocks, with copies for NUMA nodes.
#include <algorithm>

#include "core/kernels/linear/linear.h"
#include "core/kernels/linear/pack_weights.h"
#include "core/kernels/onednn/isa.h"
#include "core/kernels/onednn/packed_index.h"
#include "core/runtime/round_up.h"

namespace attention {

std::string_view Name(WeightsDtype dtype) {
  switch (dtype) {
    case WeightsDtype::kF32:
      return "fp32";
    case WeightsDtype::kBf16:
      return "bf16";
    case WeightsDtype::kInt8:
      break;
  }
  return "int8";
}

PackedLinear::Packing PackedLinear::PackingOf(const Format& format, int64_t in_features) {
  if (format.weights == WeightsDtype::kInt8 && MultipliesInt8() &&
      in_features <= kMaxInt8Features) {
    return Packing::kInt8;
  }
  const bool can_widen = CurrentAbilities().has_ukernels && in_features % 2 == 0;
  return format.compute == Dtype::kBf16 || (format.weights == WeightsDtype::kBf16 && can_widen)
             ? Packing::kBf16
             : Packing::kF32;
}

/// Returns the weights of the part with their stride.
LinearWeights PackedLinear::WeightsOf(const Part& part) const {
  LinearWeights weights = part.weights;
  if (weights.stride == 0) {
    weights.stride = weights.is_transposed ? part.out_features : in_features_;
  }
  return weights;
}

/// Returns the size of packed weights, 8-bit ones without their scales.
int64_t PackedLinear::BytesOf(int64_t weights) const {
  switch (packing_) {
    case Packing::kInt8:
      return weights;
    case Packing::kBf16:
      return weights * static_cast<int64_t>(sizeof(Bf16));
    case Packing::kF32:
      break;
  }
  return weights * static_cast<int64_t>(sizeof(float));
}

size_t PackedLinear::BlockBytes() const {
  return is_int8() ? Int8BlockBytes(in_features_) : BytesOf(in_features_ * kColumnBlock);
}

PackedLinear::PackedLinear(int64_t in_features, std::span<const Part> parts, const Format& format)
    : in_features_(in_features),
      format_(format),
      packing_(PackingOf(format, in_features)),
      columns_{0} {
  for (const Part& part : parts) {
    columns_.push_back(columns_.back() + RoundUp(part.out_features, kColumnBlock));
  }
  if (format_.is_gated) {
    columns_.pop_back();
  }
  const int copies = CurrentNumaUse().weight_copies;
  for (int node = 0; node < copies; ++node) {
    copies_.emplace_back(num_blocks() * BlockBytes(), copies > 1 ? node : kAllNumaNodes);
  }
  bias_ = AlignedBuffer(num_blocks() * kColumnBlock * sizeof(float));
  auto* bias = reinterpret_cast<float*>(bias_.data());
  std::fill_n(bias, num_blocks() * kColumnBlock, 0.0f);
  for (int64_t i = 0; i < std::ssize(parts); ++i) {
    PackPart(parts[i], format_.is_gated ? i : columns_[i] / kColumnBlock);
  }
  for (size_t copy = 1; copy < copies_.size(); ++copy) {
    std::copy_n(copies_.front().data(), copies_.front().size_bytes(), copies_[copy].data());
  }
  if (format_.weights == WeightsDtype::kBf16) {
    std::transform(bias, bias + num_blocks() * kColumnBlock, bias,
                   [](float value) { return ToFloat(ToBf16(value)); });
  }
}

void PackedLinear::PackPart(const Part& part, int64_t block) {
  const int64_t step = format_.is_gated ? 2 : 1;
  const LinearWeights weights = WeightsOf(part);
  auto* const bias = reinterpret_cast<float*>(bias_.data());
  for (int64_t first = 0; first < part.out_features; first += kColumnBlock, block += step) {
    const int64_t count = std::min(kColumnBlock, part.out_features - first);
    const ChannelBlock channels{weights, in_features_, first, count};
    if (is_int8()) {
      PackBlockInt8(channels, Block(block));
    } else {
      PackBlock(channels, format_.weights, packing_ == Packing::kBf16 ? Dtype::kBf16 : Dtype::kF32,
                Block(block));
    }
    if (weights.bias != nullptr) {
      std::copy_n(weights.bias + first, count, bias + block * kColumnBlock);
    }
  }
}

void PackedLinear::CopyChannel(int64_t channel, float* target) const {
  const std::byte* block = Block(channel / kColumnBlock);
  const int64_t column = channel % kColumnBlock;
  if (is_int8()) {
    const float scale = Int8Scales(block, in_features_)[column];
    const auto* integers = reinterpret_cast<const int8_t*>(block);
    for (int64_t k = 0; k < in_features_; ++k) {
      target[k] = scale * static_cast<float>(integers[PackedIndex(k, column, kColumnBlock, 4)]);
    }
  } else if (packing_ == Packing::kBf16) {
    const auto* pairs = reinterpret_cast<const Bf16*>(block);
    for (int64_t k = 0; k < in_features_; ++k) {
      target[k] = ToFloat(pairs[PackedIndex(k, column, kColumnBlock, 2)]);
    }
  } else {
    const int64_t columns = PanelColumns();
    const auto* panel =
        reinterpret_cast<const float*>(block) + column / columns * columns * in_features_;
    for (int64_t k = 0; k < in_features_; ++k) {
      target[k] = panel[k * columns + column % columns];
    }
  }
}

}  // namespace attention
