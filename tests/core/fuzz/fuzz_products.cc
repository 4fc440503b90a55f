#include "tests/core/fuzz/fuzz_products.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/kernels/onednn/isa.h"
#include "tests/core/fuzz/fuzz_rounding.h"

namespace attention {
namespace {

/// The weights of one output feature as they are kept.
std::vector<double> Kept(const FuzzMap& map, WeightsDtype dtype, int64_t feature) {
  const float* weights = map.weights.data() + feature * map.in_features;
  std::vector<double> kept(weights, weights + map.in_features);
  float largest = 0;
  for (const double weight : kept) {
    largest = std::max(largest, std::abs(static_cast<float>(weight)));
  }
  const float scale = largest / 127.0f;
  for (double& weight : kept) {
    const auto number = static_cast<float>(weight);
    if (dtype == WeightsDtype::kBf16) {
      weight = ToFloat(ToBf16(number));
    } else if (dtype == WeightsDtype::kInt8) {
      weight = scale > 0 ? static_cast<double>(scale) * std::nearbyint(number / scale) : 0;
    }
  }
  return kept;
}

/// Rounds rows as the operands of a product are rounded.
void RoundOperands(const FuzzWeights& weights, int64_t width, std::vector<double>& rows) {
  if (weights.dtype == WeightsDtype::kInt8 && MultipliesInt8()) {
    RoundRows(KeyValueStorage::kInt8, width, 1, rows);
  } else if (weights.compute() == Dtype::kBf16) {
    RoundRows(KeyValueStorage::kBf16, width, 1, rows);
  }
}

/// The first `features` output features of rows, which are rounded already.
std::vector<double> Multiply(const FuzzMap& map, WeightsDtype dtype, int64_t features,
                             const std::vector<double>& rows) {
  const int64_t depth = map.in_features;
  const int64_t count = std::ssize(rows) / depth;
  std::vector<double> result(count * features);
  for (int64_t feature = 0; feature < features; ++feature) {
    const std::vector<double> kept = Kept(map, dtype, feature);
    double bias = map.bias.empty() ? 0 : map.bias[feature];
    bias = dtype == WeightsDtype::kBf16 ? ToFloat(ToBf16(static_cast<float>(bias))) : bias;
    for (int64_t row = 0; row < count; ++row) {
      result[row * features + feature] =
          std::transform_reduce(kept.begin(), kept.end(), rows.begin() + row * depth, bias);
    }
  }
  return result;
}

/// Copies rows of `width` numbers to columns of rows of `all` numbers; the last rows if there are
/// more.
void CopyColumns(const std::vector<double>& from, int64_t width, int64_t column, int64_t all,
                 std::vector<double>& to) {
  const int64_t count = std::ssize(to) / all;
  const int64_t skipped = std::ssize(from) / width - count;
  for (int64_t row = 0; row < count; ++row) {
    std::copy_n(from.begin() + (skipped + row) * width, width, to.begin() + row * all + column);
  }
}

/// Replaces the last rows.
void ReplaceLast(const std::vector<double>& last, std::vector<double>& rows) {
  std::copy(last.begin(), last.end(), rows.end() - std::ssize(last));
}

}  // namespace

void Project(const FuzzWeights& weights, FuzzRows& rows) {
  const FuzzMap& query = weights.query;
  const FuzzMap& key = weights.key;
  const FuzzMap& value = weights.value;
  const int64_t num_rows = std::ssize(rows.query) / query.out_features;
  const int64_t num_keys = std::ssize(rows.key) / key.out_features;
  std::vector<double> hidden(num_rows * query.in_features);
  std::vector<double> memory(weights.has_memory ? num_keys * key.in_features : 0);
  std::vector<double> memory_values(weights.has_memory_values() ? num_keys * value.in_features : 0);
  std::vector<double>& key_rows = weights.has_memory ? memory : hidden;
  std::vector<double>& value_rows = weights.has_memory_values() ? memory_values : key_rows;
  CopyColumns(rows.query, query.out_features, 0, query.in_features, hidden);
  CopyColumns(rows.key, key.out_features, weights.key_column, key.in_features, key_rows);
  CopyColumns(rows.value, value.out_features, weights.value_column, value.in_features, value_rows);
  RoundOperands(weights, query.in_features, hidden);
  RoundOperands(weights, key.in_features, memory);
  RoundOperands(weights, value.in_features, memory_values);
  rows.query = Multiply(query, weights.dtype, query.out_features, hidden);
  ReplaceLast(Multiply(key, weights.dtype, key.out_features, key_rows), rows.key);
  ReplaceLast(Multiply(value, weights.dtype, value.out_features, value_rows), rows.value);
}

void AppendExtraKeys(const FuzzWeights& weights, FuzzRows& rows) {
  rows.key.insert(rows.key.end(), weights.extra_key.begin(), weights.extra_key.end());
  rows.value.insert(rows.value.end(), weights.extra_value.begin(), weights.extra_value.end());
  if (weights.has_zero_key) {
    rows.key.resize(rows.key.size() + weights.key.out_features);
    rows.value.resize(rows.value.size() + weights.value.out_features);
  }
}

std::vector<double> ProjectOutput(const FuzzWeights& weights, std::vector<double> rows) {
  const int64_t width = weights.output.in_features;
  RoundOperands(weights, width, rows);
  return Multiply(weights.output, weights.dtype, width, rows);
}

}  // namespace attention
