// Attention and the attention layer in double precision and plain loops. Tests, benchmarks,
// the load generator and `attend` compare answers with it. It uses no oneDNN and no threads.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace attention::reference {

/// The function of a query and a key that gives a weight, before the weights of a row are
/// normalised.
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
  std::vector<double> frequencies = {};  // [dim / 2] or empty
  double magnitude = 1;
};

struct RmsNorm {
  std::vector<double> weight = {};  // [head_dim]; empty: ones
  double epsilon = 1e-6;
};

/// The options; AttentionOptions of core/attention describes each. Empty vectors and zeros switch
/// an option off.
struct Options {
  bool causal = false;
  std::optional<double> scale = {};          // default 1 / sqrt(head_dim)
  std::optional<int64_t> query_offset = {};  // default kv_len - query_len
  int64_t window = 0;
  int64_t window_right = 0;
  int64_t window_dilation = 1;
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

/// A whole number among the visibility rules, and all of them. The default means that the rule is
/// off.
struct VisibilityNumber {
  const char* name;
  int64_t Options::* value;
};
inline constexpr VisibilityNumber kVisibilityNumbers[] = {
    {"window", &Options::window},
    {"window_right", &Options::window_right},
    {"window_dilation", &Options::window_dilation},
    {"prefix", &Options::prefix},
};

/// The extents of one sequence.
struct Extents {
  int64_t query_len = 0;
  int64_t kv_len = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t value_head_dim = 0;
};

/// Returns whether row `row` of `head` may attend to `key` by all rules of `options`, except an
/// infinite bias. It uses only the lengths of `extents`.
bool AttendsTo(const Extents& extents, const Options& options, int64_t head, int64_t row,
               int64_t key);

/// Returns rows [tokens, num_heads, head_dim] after `norm` and `rotary`, as Attention multiplies
/// them. The first token stands at `first_position`.
std::vector<double> PreparedRows(std::vector<double> rows, int64_t num_heads, int64_t head_dim,
                                 const std::optional<RmsNorm>& norm,
                                 const std::optional<Rotary>& rotary, int64_t first_position);

struct AttentionResult {
  std::vector<double> output;       // [query_len, num_heads, value_head_dim]
  std::vector<double> weights;      // [num_heads, query_len, kv_len]
  std::vector<double> log_sum_exp;  // [num_heads, query_len], without sinks
};

/// Computes attention over query [query_len, num_heads, head_dim], key [kv_len, num_kv_heads,
/// head_dim] and value [kv_len, num_kv_heads, value_head_dim], all dense. The output of a row that
/// attends to no key is zeros.
AttentionResult Attention(const Extents& extents, const std::vector<double>& query,
                          const std::vector<double>& key, const std::vector<double>& value,
                          const Options& options);

/// The weights of a layer, each [out_features, in_features]. Empty biases count as zero.
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

/// Computes the layer for one sequence: hidden_states [query_len, d_model]; memory [kv_len,
/// d_memory], or empty for self-attention. The result's output is [query_len, d_model].
AttentionResult MultiHeadAttention(const Layer& layer, const std::vector<double>& hidden_states,
                                   const std::vector<double>& memory, const Options& options);

/// Returns |actual - expected|_2 / |expected|_2, or the norm of the difference when `expected` is
/// zero. It returns infinity when a value is finite in `expected` and not in `actual`. Where
/// `expected` is not finite, nothing is compared. REQUIRES: equal sizes.
double RelativeL2(const std::vector<double>& actual, const std::vector<double>& expected);

/// The largest RelativeL2 that counts as agreement, for N(0, 1)-like inputs.
inline constexpr double kAttentionToleranceF32 = 6e-7;
inline constexpr double kLayerToleranceF32 = 1e-6;
inline constexpr double kAttentionToleranceBf16 = 2.5e-3;
inline constexpr double kLayerToleranceBf16 = 4.5e-3;

}  // namespace attention::reference
