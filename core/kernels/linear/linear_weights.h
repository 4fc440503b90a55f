// The weights of a linear map, as a model stores them.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/tensor/dtype.h"

namespace attention {

/// The dtype in which the weights of a model are kept. Rows between the products are bf16 with bf16
/// weights, bf16 products and even widths, otherwise f32 (RowsDtype).
enum class WeightsDtype {
  kF32,
  kBf16,
  /// 8-bit integers with one scale for each output channel. Input rows are rounded to 8 bits during
  /// the product, with one scale for each row. On ARM64, and with more
  /// than kMaxInt8Features input features, the rounded weights are kept as f32.
  kInt8,
};

/// Returns "fp32", "bf16" or "int8".
std::string_view Name(WeightsDtype dtype);

/// The most input features of which no sum of products of 8 bits exceeds 32 bits: a row has numbers
/// up to 255, a weight up to 127.
inline constexpr int64_t kMaxInt8Features = INT32_MAX / (255 * 127);

/// The number of output columns that are computed together. The parts of a fused map start at
/// multiples of it.
inline constexpr int64_t kColumnBlock = 64;

/// Borrowed weights of one linear map, [out_features, in_features] as torch.nn.Linear keeps them.
struct LinearWeights {
  const void* data = nullptr;
  Dtype dtype = Dtype::kF32;
  /// Whether the matrix is stored as [in_features, out_features] instead (GPT-2's Conv1D).
  bool is_transposed = false;
  /// The distance of the stored matrix's rows in elements; 0: dense.
  int64_t stride = 0;
  /// The bias, f32 [out_features], or null.
  const float* bias = nullptr;
};

}  // namespace attention
