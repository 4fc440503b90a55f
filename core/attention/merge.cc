#include "core/attention/merge.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace attention {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

/// Merges one row of one head. Each part has a share, the quotient of its sum and the total.
class RowMerge {
 public:
  /// `shares` is memory for a number of each part, which the object uses while it lives.
  RowMerge(std::span<const PartialResult> parts, int64_t lse_index, double sink,
           std::span<double> shares)
      : parts_(parts), shares_(shares) {
    std::ranges::fill(shares_, 0.0);
    double max = kMinusInfinity;
    for (const PartialResult& part : parts) {
      const double part_lse = part.log_sum_exp[lse_index];
      max = part_lse > max || std::isnan(part_lse) ? part_lse : max;
    }
    if (max == kMinusInfinity) {
      return;
    }
    double sum = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      shares_[i] = std::exp(parts[i].log_sum_exp[lse_index] - max);
      sum += shares_[i];
    }
    log_sum_exp_ = max + std::log(sum);
    for (double& share : shares_) {
      share /= sum + std::exp(sink - max);
    }
  }

  double log_sum_exp() const { return log_sum_exp_; }

  float Output(int64_t index) const {
    double sum = 0;
    for (size_t i = 0; i < parts_.size(); ++i) {
      // The output of a part without keys is not used: it may hold NaN.
      sum += shares_[i] == 0 ? 0 : shares_[i] * parts_[i].output[index];
    }
    return static_cast<float>(sum);
  }

 private:
  std::span<const PartialResult> parts_;
  std::span<double> shares_;
  double log_sum_exp_ = kMinusInfinity;
};

}  // namespace

void MergePartials(const PartialExtents& extents, std::span<const PartialResult> parts,
                   std::span<const float> sinks, const MergedResult& merged) {
  const int64_t width = extents.value_head_dim;
  std::vector<double> shares(parts.size());
  for (int64_t head = 0; head < extents.num_heads; ++head) {
    const double sink = sinks.empty() ? kMinusInfinity : sinks[head];
    for (int64_t row = 0; row < extents.query_len; ++row) {
      const int64_t lse_index = head * extents.query_len + row;
      const RowMerge merge(parts, lse_index, sink, shares);
      const int64_t first = (row * extents.num_heads + head) * width;
      for (int64_t i = first; i < first + width; ++i) {
        merged.output[i] = merge.Output(i);
      }
      if (merged.log_sum_exp != nullptr) {
        merged.log_sum_exp[lse_index] = static_cast<float>(merge.log_sum_exp());
      }
    }
  }
}

}  // namespace attention
