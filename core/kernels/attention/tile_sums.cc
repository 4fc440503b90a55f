#include "core/kernels/attention/tile_sums.h"

#include <algorithm>
#include <cmath>

#include "core/kernels/attention/visibility.h"
#include "core/kernels/tile/row_exponent.h"

namespace attention {
namespace {

/// Returns the factor that makes probabilities relative to `row_max` relative to `new_max`.
float Rescaling(float row_max, float new_max, float scale_log2e) {
  return static_cast<float>(
      std::exp2(RowExponent(row_max, scale_log2e) - RowExponent(new_max, scale_log2e)));
}

}  // namespace

void ClearSums(int64_t rows, int64_t value_width, const TileSums& sums) {
  std::fill_n(sums.values, rows * value_width, 0.0f);
  std::fill_n(sums.row_max, rows, kMinusInfinity);
  std::fill_n(sums.row_sum, rows, 0.0f);
}

void AddSoftmaxSums(const TileSums& later, int64_t rows, int64_t value_width, float scale_log2e,
                    const TileSums& sums) {
  for (int64_t r = 0; r < rows; ++r) {
    if (later.row_sum[r] == 0) {
      continue;
    }
    const float* from = later.values + r * value_width;
    float* to = sums.values + r * value_width;
    if (sums.row_sum[r] == 0) {
      std::copy_n(from, value_width, to);
      sums.row_max[r] = later.row_max[r];
      sums.row_sum[r] = later.row_sum[r];
      continue;
    }
    const float new_max = std::max(sums.row_max[r], later.row_max[r]);
    const float old_factor = Rescaling(sums.row_max[r], new_max, scale_log2e);
    const float factor = Rescaling(later.row_max[r], new_max, scale_log2e);
    for (int64_t i = 0; i < value_width; ++i) {
      to[i] = to[i] * old_factor + from[i] * factor;
    }
    sums.row_max[r] = new_max;
    sums.row_sum[r] = sums.row_sum[r] * old_factor + later.row_sum[r] * factor;
  }
}

void AddWeightSums(const TileSums& later, int64_t rows, int64_t value_width, const TileSums& sums) {
  for (int64_t r = 0; r < rows; ++r) {
    const bool has_earlier = sums.row_sum[r] != 0, has_later = later.row_sum[r] != 0;
    const float* from = later.values + r * value_width;
    float* to = sums.values + r * value_width;
    for (int64_t i = 0; i < value_width; ++i) {
      // Sums of weights of 0 are left out: a zero of the other sign would change the sum's bits.
      const bool keeps = has_earlier || !std::isfinite(to[i]);
      const bool takes = has_later || !std::isfinite(from[i]);
      to[i] = keeps && takes ? to[i] + from[i] : takes ? from[i] : to[i];
    }
    sums.row_sum[r] += later.row_sum[r];
  }
}

void CopySums(const TileSums& from, int64_t rows, int64_t value_width, const TileSums& to) {
  std::copy_n(from.values, rows * value_width, to.values);
  std::copy_n(from.row_max, rows, to.row_max);
  std::copy_n(from.row_sum, rows, to.row_sum);
}

}  // namespace attention
