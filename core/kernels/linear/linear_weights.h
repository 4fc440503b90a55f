// The weights of a linear map, as a model stores them.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/tensor/dtype.h"

namespace attention {

/// The dtype in which the weights of a model are kept. Rows between the products are f32, or bf16
/// if the weights are bf16.
enum class WeightsDtype {
  kF32,
  kBf16,
  /// 8-bit integers with one scale for each output channel. Input rows are rounded to 8 bits during
  /// the product, with one scale for each row. On ARM64 the rounded weights are kept as f32.
  kInt8,
};

/// Returns "fp32", "bf16" or "int8".
std::string_view Name(WeightsDtype dtype);

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
