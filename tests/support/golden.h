// The golden vectors of tests/data, which its README.md describes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/tensor/safetensors.h"

namespace attention {

/// One attention problem and its answer, all f32.
struct SdpaCase {
  Tensor query;                   // [batch_size, query_len, num_heads, head_dim]
  Tensor key;                     // [batch_size, kv_len, num_kv_heads, head_dim]
  Tensor value;                   // [batch_size, kv_len, num_kv_heads, value_head_dim]
  Tensor output;                  // [batch_size, query_len, num_heads, value_head_dim]
  std::optional<Tensor> weights;  // [batch_size, num_heads, query_len, kv_len]
  std::vector<int64_t> kv_lens;   // [batch_size]; keys at and past it are hidden
  bool causal = false;
  std::optional<double> scale;
  int64_t window = 0;
  double softcap = 0;
  std::optional<Tensor> bias;  // [1 or batch_size, num_heads, query_len, kv_len]
};

std::vector<std::string> SdpaCaseNames();

/// The golden loaders end the program when a file is missing or unreadable.
SdpaCase LoadSdpaCase(const std::string& name);

/// The tensors of tests/data/golden/`file`.
NamedTensors LoadGolden(const std::string& file);

/// Elements of a tensor, and of its index-th slice along the first extent.
std::vector<double> ToDoubles(const Tensor& tensor);
std::vector<double> ToDoubles(const Tensor& tensor, int64_t index);

}  // namespace attention
