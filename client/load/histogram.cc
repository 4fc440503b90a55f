#include "client/load/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

namespace attention {
namespace {

constexpr int kPartBits = 7;
constexpr uint64_t kParts = uint64_t{1} << kPartBits;
constexpr uint64_t kNumBuckets = (64 - kPartBits) * kParts;

/// Values below kParts have a bucket each; above, the top kPartBits + 1 bits choose it.
size_t BucketOf(uint64_t value) {
  const int shift = std::max(0, static_cast<int>(std::bit_width(value)) - 1 - kPartBits);
  return shift * kParts + (value >> shift);
}

/// The largest value of a bucket.
int64_t UpperEnd(size_t bucket) {
  const uint64_t shift = bucket < 2 * kParts ? 0 : bucket / kParts - 1;
  const uint64_t top = bucket - shift * kParts;
  return static_cast<int64_t>(((top + 1) << shift) - 1);
}

}  // namespace

Histogram::Histogram() : counts_(kNumBuckets, 0) {}

void Histogram::Record(int64_t value) {
  value = std::max<int64_t>(0, value);
  ++counts_[BucketOf(static_cast<uint64_t>(value))];
  min_ = count_ == 0 ? value : std::min(min_, value);
  max_ = std::max(max_, value);
  sum_ += static_cast<double>(value);
  ++count_;
}

void Histogram::Merge(const Histogram& other) {
  if (other.count_ == 0) {
    return;
  }
  for (size_t i = 0; i < counts_.size(); ++i) {
    counts_[i] += other.counts_[i];
  }
  min_ = count_ == 0 ? other.min_ : std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  sum_ += other.sum_;
  count_ += other.count_;
}

int64_t Histogram::Percentile(double percent) const {
  const int64_t rank =
      std::max<int64_t>(1, static_cast<int64_t>(std::ceil(percent / 100.0 * count_)));
  int64_t seen = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    seen += counts_[i];
    if (counts_[i] > 0 && seen >= rank) {
      return std::clamp(UpperEnd(i), min_, max_);
    }
  }
  return max_;
}

}  // namespace attention
