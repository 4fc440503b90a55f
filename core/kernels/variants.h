// The kinds of attention: the types of a sequence's options.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace attention {

/// The function of a query and a key that gives the weight. The weights of a row are normalised
/// over the keys that it attends to.
enum class Similarity {
  kDotProduct,  // exp(logit): softmax attention
  kGaussian,    // exp(-|q - k|^2 / bandwidth)
  kBox,         // 1 if |q - k| <= bandwidth, else 0
  kTriangular,  // max(0, 1 - |q - k| / bandwidth)
  kLinear,      // f(q) . f(k), f(x) = elu(x) + 1 (Katharopoulos et al. 2020)
};

/// "DOT_PRODUCT", "GAUSSIAN", "BOX", "TRIANGULAR" or "LINEAR".
constexpr std::string_view Name(Similarity similarity) {
  switch (similarity) {
    case Similarity::kDotProduct:
      return "DOT_PRODUCT";
    case Similarity::kGaussian:
      return "GAUSSIAN";
    case Similarity::kBox:
      return "BOX";
    case Similarity::kTriangular:
      return "TRIANGULAR";
    case Similarity::kLinear:
      return "LINEAR";
  }
  return "unknown";
}

/// Whether this is Nadaraya-Watson kernel regression: the weight is a function of the distance of
/// query and key.
constexpr bool IsRegression(Similarity similarity) {
  return similarity == Similarity::kGaussian || similarity == Similarity::kBox ||
         similarity == Similarity::kTriangular;
}

/// Whether the weights are exponentials, computed by online softmax.
constexpr bool IsSoftmax(Similarity similarity) {
  return similarity == Similarity::kDotProduct || similarity == Similarity::kGaussian;
}

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

}  // namespace attention
