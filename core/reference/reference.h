// Attention and the attention layer in double precision and plain loops: the oracle of tests,
// benchmarks, the demo and the load tester's checks. No oneDNN, no threads, no cleverness.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace attention::reference {

struct Options {
  bool causal = false;
  std::optional<double> scale = {};          // default 1 / sqrt(head_dim)
  std::optional<int64_t> query_offset = {};  // default kv_len - query_len
};

/// Extents of one sequence.
struct Extents {
  int64_t query_len = 0;
  int64_t kv_len = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t value_head_dim = 0;
};

struct AttentionResult {
  std::vector<double> output;   // [query_len, num_heads, value_head_dim]
  std::vector<double> weights;  // [num_heads, query_len, kv_len]
};

/// query [query_len, num_heads, head_dim], key [kv_len, num_kv_heads, head_dim], value [kv_len,
/// num_kv_heads, value_head_dim], all dense. A row that sees no key gives zeros.
AttentionResult Attention(const Extents& extents, const std::vector<double>& query,
                          const std::vector<double>& key, const std::vector<double>& value,
                          const Options& options);

/// Weights [out_features, in_features]; empty biases count as zero.
struct Layer {
  int64_t d_model = 0;
  int64_t d_memory = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t value_head_dim = 0;
  std::vector<double> query, key, value, output;
  std::vector<double> query_bias = {}, key_bias = {}, value_bias = {}, output_bias = {};
};

/// One sequence: hidden_states [query_len, d_model]; memory [kv_len, d_memory], or empty for
/// self-attention. The result's output is [query_len, d_model].
AttentionResult MultiHeadAttention(const Layer& layer, const std::vector<double>& hidden_states,
                                   const std::vector<double>& memory, const Options& options);

/// |actual - expected|_2 / |expected|_2; the norm of the difference when `expected` is zero;
/// infinity when any value that `expected` has finite is not finite in `actual`. REQUIRES: equal
/// sizes.
double RelativeL2(const std::vector<double>& actual, const std::vector<double>& expected);

/// Largest RelativeL2 that counts as agreement, for N(0, 1)-like inputs.
inline constexpr double kAttentionToleranceF32 = 6e-7;
inline constexpr double kLayerToleranceF32 = 1e-6;
inline constexpr double kAttentionToleranceBf16 = 2.5e-3;
inline constexpr double kLayerToleranceBf16 = 4.5e-3;

}  // namespace attention::reference
