// Models whose weights are generated from a seed: `demo` and `--random-model`.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "core/kernels/linear/linear.h"
#include "core/tensor/dtype.h"

namespace attention {

/// The specification of a model of `--random-model`, and of the built-in model: one attention
/// layer, with token and position embeddings when it takes token ids.
struct SeededModelSpec {
  std::string name;
  int64_t version = 1;
  uint64_t seed = 0;
  int64_t d_model = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;    // 0: num_heads
  int64_t head_dim = 0;        // 0: d_model / num_heads
  int64_t value_head_dim = 0;  // 0: head_dim
  int64_t vocab_size = 0;      // 0: takes no token ids
  int64_t max_positions = 0;
  Dtype dtype = Dtype::kF32;
  bool causal = false;
};

/// The model served under the name `demo`: d_model 512, 8 heads, vocabulary 1000, 2048 learned
/// positions, not causal.
SeededModelSpec DemoModelSpec();

/// `NAME:d_model=768,num_heads=12[,num_kv_heads=..][,head_dim=..][,value_head_dim=..][,vocab_size=..]
/// [,max_positions=..][,dtype=fp32|bf16][,causal=true|false][,seed=..]`. INVALID_ARGUMENT names the
/// key.
absl::StatusOr<SeededModelSpec> ParseSeededModelSpec(const std::string& text);

}  // namespace attention
