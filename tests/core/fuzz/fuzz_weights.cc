#include "tests/core/fuzz/fuzz_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/kernels/linear/linear.h"
#include "core/tensor/seeded.h"

namespace attention {
namespace {

std::vector<float> Numbers(uint64_t seed, int64_t count, float size) {
  const Tensor numbers = SeededTensor(seed, Dtype::kF32, {count});
  std::vector<float> result(numbers.as<float>(), numbers.as<float>() + count);
  for (float& number : result) {
    number *= size;
  }
  return result;
}

/// Makes the weights of a map: output feature i is input feature first_column + i, or all are
/// random.
void Fill(const FuzzCase& c, uint64_t seed, int64_t first_column, FuzzMap& map) {
  const int64_t rows = map.out_features;
  const int64_t columns = map.in_features;
  if (c.layer_weights != 0) {
    map.weights = Numbers(seed, rows * columns, 1 / std::sqrt(static_cast<float>(columns)));
    map.bias = Numbers(seed + 1, rows, 0.1f);
    return;
  }
  map.weights.resize(rows * columns);
  for (int64_t i = 0; i < rows && first_column + i < columns; ++i) {
    map.weights[i * columns + first_column + i] = 1;
  }
}

/// Stores the weights as the case says, with NaN between their rows. They become the numbers that
/// are stored.
void StoreWeights(const FuzzCase& c, FuzzMap& map) {
  const auto dtype = static_cast<Dtype>(std::max<int64_t>(c.stored_dtype - 1, 0));
  const bool is_transposed = c.transposed != 0;
  const int64_t rows = is_transposed ? map.in_features : map.out_features;
  const int64_t columns = is_transposed ? map.out_features : map.in_features;
  const int64_t stride = columns + c.stored_padding;
  const auto bytes = static_cast<int64_t>(SizeOf(dtype)) * ((rows - 1) * stride + columns);
  map.stored = std::make_unique<GuardedMemory>(
      bytes, c.at_begin != 0 ? GuardedMemory::Side::kBegin : GuardedMemory::Side::kEnd);
  std::memset(map.stored->data(), 0xff, bytes);
  for (int64_t i = 0; i < rows * columns; ++i) {
    const int64_t row = i / columns;
    const int64_t column = i % columns;
    float& weight = is_transposed ? map.weights[column * rows + row] : map.weights[i];
    void* element = ElementAt(map.stored->data(), dtype, row * stride + column);
    Convert(Dtype::kF32, &weight, dtype, element, 1);
    Convert(dtype, element, Dtype::kF32, &weight, 1);
  }
  map.borrowed = {.data = map.stored->data(),
                  .dtype = dtype,
                  .is_transposed = is_transposed,
                  .stride = c.stored_padding == 0 ? 0 : stride,
                  .bias = map.bias.empty() ? nullptr : map.bias.data()};
}

}  // namespace

FuzzWeights::FuzzWeights(const FuzzCase& c) : dtype(static_cast<WeightsDtype>(c.layer_dtype)) {
  has_memory = c.layer != 2;
  const int64_t heads = c.kv_heads * c.group;
  const int64_t key_width = c.kv_heads * c.dim;
  const int64_t value_width = c.kv_heads * c.value_dim;
  const int64_t hidden =
      std::max(heads * c.dim + (has_memory ? 0 : key_width + value_width), heads * c.value_dim);
  shape = {.d_model = hidden,
           .d_memory = has_memory ? key_width + value_width : hidden,
           .num_heads = heads,
           .num_kv_heads = c.kv_heads,
           .head_dim = c.dim,
           .value_head_dim = c.value_dim};
  key_column = has_memory ? 0 : heads * c.dim;
  value_column = key_column + key_width;
  if (c.layer == 3) {
    shape.d_memory = key_width;
    shape.d_memory_value = value_width;
    value_column = 0;
  }
  const uint64_t seed = (static_cast<uint64_t>(c.seed) << 20) + 1000;  // others than the problem's
  query = {hidden, heads * c.dim};
  key = {shape.d_memory, key_width};
  value = {has_memory_values() ? shape.d_memory_value : shape.d_memory, value_width};
  output = {heads * c.value_dim, hidden};
  Fill(c, seed, 0, query);
  Fill(c, seed + 2, key_column, key);
  Fill(c, seed + 4, value_column, value);
  Fill(c, seed + 6, 0, output);
  for (FuzzMap* map : {&query, &key, &value, &output}) {
    StoreWeights(c, *map);
  }
  if (c.extra_keys % 2 != 0) {
    extra_key = Numbers(seed + 8, key_width, 1);
    extra_value = Numbers(seed + 9, value_width, static_cast<float>(ValueSize(c)));
  }
  has_zero_key = c.extra_keys >= 2;
}

Dtype FuzzWeights::compute() const {
  const int64_t context = shape.num_heads * shape.value_head_dim;
  return RowsDtype(dtype,
                   (shape.d_model | shape.d_memory | shape.d_memory_value | context) % 2 == 0);
}

absl::StatusOr<std::unique_ptr<MultiHeadAttention>> FuzzWeights::MakeLayer() const {
  return MultiHeadAttention::Create(shape,
                                    {.query = query.borrowed,
                                     .key = key.borrowed,
                                     .value = value.borrowed,
                                     .output = output.borrowed,
                                     .extra_key = extra_key,
                                     .extra_value = extra_value,
                                     .has_zero_key = has_zero_key},
                                    dtype);
}

}  // namespace attention
