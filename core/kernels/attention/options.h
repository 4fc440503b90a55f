// The kinds of attention: the options of a sequence, and their types.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/kernels/tile/similarity.h"

namespace attention {

/// Rotary position embedding (Su et al. 2021, "RoFormer") of query and key: pair i of the first
/// `dim` elements at position p is rotated by p / base^(2i / dim) radians. A query row stands at
/// its position p, a key at j.
struct Rotary {
  enum class Scaling {
    kNone,
    kLinear,  // positions are divided by `factor`
    /// Llama 3.1: frequencies with a wavelength above original_max_positions / low_freq_factor are
    /// divided by `factor`, those with a wavelength below original_max_positions / high_freq_factor
    /// are unchanged, and those between are interpolated.
    kLlama3,
  };

  /// The number of elements that are rotated, even; 0: all elements of the head.
  int64_t dim = 0;
  double base = 10000;
  /// Whether the pairs are (2i, 2i + 1); otherwise they are (i, i + dim / 2).
  bool interleaved = false;
  Scaling scaling = Scaling::kNone;
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  int64_t original_max_positions = 8192;
  /// A number that is added to the positions of queries and keys.
  int64_t position_offset = 0;
  /// [dim / 2], borrowed, or null: the radians of each pair per position, which replace base and
  /// scaling.
  const double* frequencies = nullptr;
  /// The factor of all cosines and sines ("YaRN", Peng et al. 2023).
  double magnitude = 1;

  bool operator==(const Rotary&) const = default;
};

/// x / sqrt(mean(x^2) + epsilon) * weight, over each head's elements (Zhang & Sennrich 2019).
struct RmsNorm {
  /// [head_dim], borrowed; null: ones.
  const float* weight = nullptr;
  float epsilon = 1e-6f;
};

/// Borrowed [num_heads or 1, query_len, kv_len]: keys contiguous, rows and heads any stride in
/// elements; head_stride 0 gives all heads the same.
template <typename T>
struct ScoreView {
  const T* data = nullptr;
  int64_t head_stride = 0;
  int64_t row_stride = 0;

  const T* Row(int64_t head, int64_t row) const {
    return data + head * head_stride + row * row_stride;
  }
};

/// Numbers that are added to the logits; -infinity hides the key.
using Bias = ScoreView<float>;
/// Flags of keys; a 0 hides the key from the row.
using Mask = ScoreView<uint8_t>;

/// The largest query offset and rotary position offset, positive or negative. It is far beyond any
/// sequence, and no sum of positions overflows.
inline constexpr int64_t kMaxPosition = int64_t{1} << 40;

/// The options of one sequence. Spans, views and norm weights are borrowed.
///
/// Rows: query and key rows are normalised (`query_norm`, `key_norm`), then rotated (`rotary`).
/// Logits: softcap(scale * query . key), then - slope * |p - j|, then + bias, then the visibility
/// rules hide keys. Row i stands at key position p = query_offset + i; key j at j.
struct AttentionOptions {
  /// Row i attends to keys j <= p only.
  bool causal = false;
  /// The factor of query . key; 1 / sqrt(head_dim) by default. It is finite and may be negative.
  std::optional<float> scale = {};
  /// The position of row 0. The default is kv_len - query_len: the last row stands at the last key
  /// (bottom-right alignment). It may be negative.
  std::optional<int64_t> query_offset = {};

  /// w > 0: row i attends to keys j > p - w only: up to its own position, w keys. Later keys are
  /// hidden by `causal` or `window_right` alone. 0: unbounded.
  int64_t window = 0;
  /// r > 0: row i attends to keys j <= p + r only. 0: unbounded.
  int64_t window_right = 0;
  /// d >= 1: of the keys within the windows, row i attends to those with (p - j) divisible by d
  /// (Longformer, Beltagy et al. 2020). With d > 1 it needs `window`, which counts positions.
  int64_t window_dilation = 1;
  /// Every row attends to keys j < prefix, regardless of `causal` and the windows.
  int64_t prefix = 0;
  /// The row at such a position attends to every key, and every row attends to its key
  /// (Longformer), regardless of `causal` and the windows. Strictly ascending, in [0, kv_len).
  std::span<const int64_t> global_tokens = {};
  /// [num_heads or 1, query_len, kv_len]: a 0 hides the key from the row, regardless of all other
  /// rules.
  Mask mask = {};

  /// c > 0: a logit x becomes c * tanh(x / c). 0: none.
  float softcap = 0;
  /// [num_heads] or empty: ALiBi (Press et al. 2022).
  std::span<const float> alibi_slopes = {};
  /// f32 [num_heads or 1, query_len, kv_len], added to the logits.
  Bias bias = {};
  /// [num_heads] or empty: one more logit for each row of a head. It is added to the denominator of
  /// softmax and to nothing else.
  std::span<const float> sinks = {};

  /// Norms over head_dim elements.
  std::optional<RmsNorm> query_norm = {};
  std::optional<RmsNorm> key_norm = {};
  std::optional<Rotary> rotary = {};

  Similarity similarity = Similarity::kDotProduct;
  /// The bandwidth of kGaussian, kBox and kTriangular: > 0 with these, otherwise 0. They do not use
  /// scale, softcap, alibi_slopes, bias and sinks.
  double bandwidth = 0;
};

/// A whole number among the visibility rules.
struct VisibilityNumber {
  const char* name;
  int64_t AttentionOptions::* value;
};
/// All whole-number visibility rules. The checks, the defaults and the wire iterate over this
/// table. A number is at least its default, which turns the rule off.
inline constexpr VisibilityNumber kVisibilityNumbers[] = {
    {"window", &AttentionOptions::window},
    {"window_right", &AttentionOptions::window_right},
    {"window_dilation", &AttentionOptions::window_dilation},
    {"prefix", &AttentionOptions::prefix},
};

}  // namespace attention
