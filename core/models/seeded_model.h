// Models whose weights are generated from a seed: `demo` and `--random-model`.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "core/models/model_info.h"

namespace attention {

/// Returns the model served under the name `demo`: d_model 512, 8 heads, vocabulary 1000, 2048
/// learned positions, not causal.
SeededModelSpec DemoModelSpec();

/// Parses the specification of a model:
/// `NAME:d_model=768,num_heads=12[,num_kv_heads=..][,head_dim=..][,value_head_dim=..][,vocab_size=..]
/// [,max_positions=..][,dtype=fp32|bf16][,causal=true|false][,seed=..]`. INVALID_ARGUMENT names the
/// key.
absl::StatusOr<SeededModelSpec> ParseSeededModelSpec(const std::string& text);

}  // namespace attention
