#include "tests/bench/case_support.h"

#include "core/tensor/seeded.h"

namespace attention::bench {
namespace {

constexpr int64_t kSampledRows = 8;

}  // namespace

std::vector<double> Doubles(const Tensor& tensor, int64_t first, int64_t count) {
  std::vector<float> values(count);
  Convert(tensor.dtype(), ElementAt(tensor.data(), tensor.dtype(), first), Dtype::kF32,
          values.data(), count);
  return {values.begin(), values.end()};
}

/// Rows to check: the first, the last, and others spread between.
std::vector<int64_t> SampleRows(int64_t seq_len) {
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < kSampledRows; ++i) {
    rows.push_back(i * (seq_len - 1) / (kSampledRows - 1));
  }
  return rows;
}

std::vector<double> Doubles(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

void Append(const std::vector<double>& values, std::vector<double>& to) {
  to.insert(to.end(), values.begin(), values.end());
}

BenchLayer::BenchLayer(const CaseSpec& spec) {
  const SeededLayer weights = MakeSeededLayer(7, spec.dtype,
                                              {.d_model = spec.d_model,
                                               .num_heads = spec.num_heads,
                                               .num_kv_heads = spec.num_kv_heads,
                                               .head_dim = spec.head_dim,
                                               .value_head_dim = spec.head_dim});
  const MultiHeadAttentionShape shape{spec.d_model,      spec.d_model,  spec.num_heads,
                                      spec.num_kv_heads, spec.head_dim, spec.head_dim};
  layer = *MultiHeadAttention::Create(
      shape,
      {.query = {.data = weights.query.data(), .bias = weights.query_bias.data()},
       .key = {.data = weights.key.data(), .bias = weights.key_bias.data()},
       .value = {.data = weights.value.data(), .bias = weights.value_bias.data()},
       .output = {.data = weights.output.data(), .bias = weights.output_bias.data()}},
      spec.has_int8_weights        ? WeightsDtype::kInt8
      : spec.dtype == Dtype::kBf16 ? WeightsDtype::kBf16
                                   : WeightsDtype::kF32);
  reference = {spec.d_model,
               spec.d_model,
               spec.num_heads,
               spec.num_kv_heads,
               spec.head_dim,
               spec.head_dim,
               Doubles(weights.query),
               Doubles(weights.key),
               Doubles(weights.value),
               Doubles(weights.output),
               Doubles(weights.query_bias),
               Doubles(weights.key_bias),
               Doubles(weights.value_bias),
               Doubles(weights.output_bias)};
}

double LayerTolerance(const CaseSpec& spec) {
  if (spec.has_int8_weights) {
    return kInt8Tolerance;
  }
  return spec.dtype == Dtype::kF32 ? reference::kLayerToleranceF32 : reference::kLayerToleranceBf16;
}

}  // namespace attention::bench
