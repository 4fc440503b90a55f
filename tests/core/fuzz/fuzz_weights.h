// The weights of a random case's layer.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "core/layers/multi_head_attention.h"
#include "tests/core/fuzz/fuzz_case.h"
#include "tests/core/fuzz/guarded_memory.h"

namespace attention {

/// A linear map of the layer.
struct FuzzMap {
  int64_t in_features = 0;
  int64_t out_features = 0;
  std::vector<float> weights = {};  // [out_features, in_features]
  std::vector<float> bias = {};     // [out_features] or empty
  /// The weights as the layer is given them, and what describes them.
  std::unique_ptr<GuardedMemory> stored = nullptr;
  LinearWeights borrowed = {};
};

struct FuzzWeights {
  explicit FuzzWeights(const FuzzCase& c);

  absl::StatusOr<std::unique_ptr<MultiHeadAttention>> MakeLayer() const;
  /// The dtype of the rows of the layer's products.
  Dtype compute() const;

  WeightsDtype dtype = WeightsDtype::kF32;
  MultiHeadAttentionShape shape;
  bool has_memory = false;
  bool has_memory_values() const { return shape.has_memory_values(); }
  /// The columns of the rows that hold keys and values at which their heads begin. The heads of the
  /// query begin at column 0.
  int64_t key_column = 0;
  int64_t value_column = 0;
  FuzzMap query, key, value, output;
  std::vector<float> extra_key, extra_value;
  bool has_zero_key = false;
};

}  // namespace attention
