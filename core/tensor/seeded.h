// Deterministic pseudo-random tensors: the same on every machine, so that a client can reproduce a
// server's built-in weights, and a test its inputs, from a seed.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/tensor/tensor.h"

namespace attention {

/// Fills `values` with numbers of mean 0 and standard deviation `stddev`. Element i depends on
/// (seed, i) alone: SplitMix64 (Steele, Lea & Flood 2014) gives four 16-bit uniforms whose centred
/// sum approximates a normal; integer arithmetic and one multiplication, so no math library can
/// change a bit.
void FillSeeded(uint64_t seed, float stddev, float* values, int64_t count);

/// Returns a tensor of N(0, 1)-like values, rounded to `dtype`.
Tensor SeededTensor(uint64_t seed, Dtype dtype, Shape shape);

/// Returns the seed of the part of a model that is called `part`. It is derived from the model's
/// seed.
uint64_t SeedOf(uint64_t model_seed, std::string_view part);

/// Weights and biases of a seeded attention layer, f32, as `MultiHeadAttentionWeights` documents
/// them. Weights have standard deviation 1 / sqrt(in_features), biases 0.02; both rounded to
/// `dtype`.
struct SeededLayer {
  std::vector<float> query, key, value, output;
  std::vector<float> query_bias, key_bias, value_bias, output_bias;
};
struct SeededExtents {
  int64_t d_model = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t value_head_dim = 0;
};
SeededLayer MakeSeededLayer(uint64_t model_seed, Dtype dtype, const SeededExtents& extents);

/// Returns rows of the seeded token or position table (`part` "token_embedding" or
/// "position_embedding"): f32 [count, d_model], standard deviation 1 for tokens and 0.1 for
/// positions, rounded to `dtype`.
std::vector<float> MakeSeededEmbedding(uint64_t model_seed, Dtype dtype, std::string_view part,
                                       int64_t count, int64_t d_model);

}  // namespace attention
