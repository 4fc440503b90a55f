#include "core/kernels/attention/tile_logits.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/kernels/tile/gaussian_score.h"
#include "core/kernels/tile/row_exponent.h"

namespace attention {

void TileLogits::Shape(const KeyTile& keys, const Rectangle& rectangle) const {
  const int64_t first_key = keys.first_key + rectangle.begin;
  LogitRow terms[kQueryTile];
  for (int64_t i = 0; i < rectangle.rows; ++i) {
    const int64_t row = rectangle.first_row + i;
    const int64_t head = setup_.HeadOf(row);
    const Bias& bias = options_.bias;
    terms[i] = {
        .alibi_slope = options_.alibi_slopes.empty() ? 0 : options_.alibi_slopes[head],
        .first_distance = static_cast<float>(NearestKey(row) - first_key),
        .bias = bias.data == nullptr ? nullptr : bias.Row(head, setup_.RowOf(row)) + first_key};
  }
  setup_.kernels.logits(
      {.scores = keys.ScoreRow(rectangle.first_row) + rectangle.begin,
       .stride = kScoreStride,
       .rows = rectangle.rows,
       .cols = std::min(rectangle.end, sequence_.kv_len() - keys.first_key) - rectangle.begin,
       .scale = std::abs(*options_.scale),
       .softcap = options_.softcap,
       .terms = terms});
}

int64_t TileLogits::NearestKey(int64_t row) const {
  const int64_t position = *options_.query_offset + setup_.RowOf(row);
  return std::clamp<int64_t>(position, 0, std::max<int64_t>(sequence_.kv_len() - 1, 0));
}

double TileLogits::ShiftOf(int64_t row) const {
  if (options_.alibi_slopes.empty()) {
    return 0;
  }
  const int64_t position = *options_.query_offset + setup_.RowOf(row);
  return options_.alibi_slopes[setup_.HeadOf(row)] *
         std::abs(static_cast<double>(position - NearestKey(row)));
}

double TileLogits::ExponentOf(int64_t row, float row_max) const {
  switch (options_.similarity) {
    case Similarity::kDotProduct:
      return RowExponent(row_max, setup_.scale_log2e) - ShiftOf(row) * std::numbers::log2e;
    case Similarity::kGaussian:
      return row_max < -kLargestExponent
                 ? -ExponentOfGaussianScore(row_max) * static_cast<double>(setup_.scale_log2e)
                 : RowExponent(row_max, setup_.scale_log2e);
    default:
      return 0;
  }
}

float TileLogits::SinkTerm(int64_t row, float row_max) const {
  if (options_.sinks.empty() || row_max == kMinusInfinity) {
    return 0;
  }
  const double sink = options_.sinks[setup_.HeadOf(row)];
  return static_cast<float>(std::exp2(sink * std::numbers::log2e - ExponentOf(row, row_max)));
}

}  // namespace attention
