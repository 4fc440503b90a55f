// Attention and the attention layer in double precision and plain loops: the oracle of tests,
// benchmarks, the demo and the load tester's checks. No oneDNN, no threads, no cleverness.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace attention::reference {

/// How a query and a key make a weight, before the weights of a row are normalised.
enum class Similarity { kDotProduct, kGaussian, kBox, kTriangular, kLinear };

struct Rotary {
  enum class Scaling { kNone, kLinear, kLlama3 };
  int64_t dim = 0;  // 0: head_dim
  double base = 10000;
  bool interleaved = false;
  Scaling scaling = Scaling::kNone;
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  int64_t original_max_positions = 8192;
  int64_t position_offset = 0;
};

struct RmsNorm {
  std::vector<double> weight = {};  // [head_dim]; empty: ones
  double epsilon = 1e-6;
};

/// As core/attention's AttentionOptions, which says what each does. Empty vectors and zeros are
/// off.
struct Options {
  bool causal = false;
  std::optional<double> scale = {};          // default 1 / sqrt(head_dim)
  std::optional<int64_t> query_offset = {};  // default kv_len - query_len
  int64_t window = 0;
  int64_t window_right = 0;
  int64_t prefix = 0;
  std::vector<int64_t> global_tokens = {};
  std::vector<uint8_t> mask = {};  // [num_heads or 1, query_len, kv_len]
  double softcap = 0;
  std::vector<double> alibi_slopes = {};  // [num_heads]
  std::vector<double> bias = {};          // [num_heads or 1, query_len, kv_len]
  std::vector<double> sinks = {};         // [num_heads]
  std::optional<RmsNorm> query_norm = {};
  std::optional<RmsNorm> key_norm = {};
  std::optional<Rotary> rotary = {};
  Similarity similarity = Similarity::kDotProduct;
  double bandwidth = 0;
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

/// Whether row `row` of `head` may attend to `key`, by all rules of `options` but an infinite bias.
/// Uses the lengths of `extents` alone.
bool Sees(const Extents& extents, const Options& options, int64_t head, int64_t row, int64_t key);

struct AttentionResult {
  std::vector<double> output;       // [query_len, num_heads, value_head_dim]
  std::vector<double> weights;      // [num_heads, query_len, kv_len]
  std::vector<double> log_sum_exp;  // [num_heads, query_len], without sinks
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
