// What the cases share.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/layers/multi_head_attention.h"
#include "core/reference/reference.h"
#include "core/tensor/tensor.h"
#include "tests/bench/cases.h"

namespace attention::bench {

/// Elements [first, first + count) of a tensor.
std::vector<double> Doubles(const Tensor& tensor, int64_t first, int64_t count);
std::vector<double> Doubles(const std::vector<float>& values);

/// Rows to check: the first, the last, and others spread between.
std::vector<int64_t> SampleRows(int64_t seq_len);

void Append(const std::vector<double>& values, std::vector<double>& to);

/// A seeded layer, and the reference's.
struct BenchLayer {
  explicit BenchLayer(const CaseSpec& spec);

  std::unique_ptr<MultiHeadAttention> layer;
  reference::Layer reference;
};
double LayerTolerance(const CaseSpec& spec);
/// 8 bits a number, N(0, 1) inputs.
inline constexpr double kInt8Tolerance = 2e-2;

}  // namespace attention::bench
