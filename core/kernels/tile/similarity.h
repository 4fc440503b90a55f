// The similarities: functions of a query and a key that give a weight.
#pragma once

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

/// Returns "DOT_PRODUCT", "GAUSSIAN", "BOX", "TRIANGULAR" or "LINEAR".
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

/// Returns whether this is Nadaraya-Watson kernel regression: the weight is a function of the
/// distance of query and key.
constexpr bool IsRegression(Similarity similarity) {
  return similarity == Similarity::kGaussian || similarity == Similarity::kBox ||
         similarity == Similarity::kTriangular;
}

/// Returns whether f32 holds the squares of distances near the bandwidth. Otherwise distances are
/// computed in double precision, and gaussian scores are divided by the bandwidth.
constexpr bool HasOrdinarySquares(double bandwidth) {
  return bandwidth > 0x1p-40 && bandwidth < 0x1p40;
}

/// Returns whether the weights are exponentials, computed by online softmax.
constexpr bool IsSoftmax(Similarity similarity) {
  return similarity == Similarity::kDotProduct || similarity == Similarity::kGaussian;
}

}  // namespace attention
