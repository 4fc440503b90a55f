#include "client/load/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"

namespace attention {
namespace {

constexpr int kPartBits = 7;
constexpr uint64_t kSubBuckets = uint64_t{1} << kPartBits;

/// Values below kSubBuckets have a bucket each; above, the top kPartBits + 1 bits choose it.
size_t BucketOf(uint64_t value) {
  const int shift = std::max(0, static_cast<int>(std::bit_width(value)) - 1 - kPartBits);
  return shift * kSubBuckets + (value >> shift);
}

/// The largest value of a bucket.
int64_t UpperEnd(size_t bucket) {
  const uint64_t shift = bucket < 2 * kSubBuckets ? 0 : bucket / kSubBuckets - 1;
  const uint64_t top = bucket - shift * kSubBuckets;
  return static_cast<int64_t>(((top + 1) << shift) - 1);
}

/// Percentages as whole numbers of millionths: in binary, 99.9 / 100 * 1000 is more than 999.
constexpr absl::int128 kWhole = 100'000'000;
absl::int128 PartsOf(double percent) { return std::llround(percent * 1e6); }

}  // namespace

void Histogram::Record(int64_t value) {
  value = std::max<int64_t>(0, value);
  const size_t bucket = BucketOf(static_cast<uint64_t>(value));
  if (bucket >= counts_.size()) {
    counts_.resize(bucket + 1);
  }
  ++counts_[bucket];
  min_ = count_ == 0 ? value : std::min(min_, value);
  max_ = std::max(max_, value);
  sum_ += static_cast<double>(value);
  ++count_;
}

void Histogram::Merge(const Histogram& other) {
  if (other.count_ == 0) {
    return;
  }
  counts_.resize(std::max(counts_.size(), other.counts_.size()));
  for (size_t i = 0; i < other.counts_.size(); ++i) {
    counts_[i] += other.counts_[i];
  }
  min_ = count_ == 0 ? other.min_ : std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  sum_ += other.sum_;
  count_ += other.count_;
}

bool Histogram::IsEnoughFor(double percent) const {
  const absl::int128 above = kWhole - PartsOf(percent);
  return count_ > 0 && (above == 0 || above * count_ >= kWhole);
}

int64_t Histogram::Percentile(double percent) const {
  const int64_t rank =
      std::max<int64_t>(1, static_cast<int64_t>((PartsOf(percent) * count_ + kWhole - 1) / kWhole));
  int64_t seen = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    seen += counts_[i];
    if (counts_[i] > 0 && seen >= rank) {
      return std::clamp(UpperEnd(i), min_, max_);
    }
  }
  return max_;
}

std::string Histogram::Counts() const {
  std::string text;
  for (size_t i = 0; i < counts_.size(); ++i) {
    if (counts_[i] > 0) {
      absl::StrAppend(&text, text.empty() ? "" : " ", UpperEnd(i), ":", counts_[i]);
    }
  }
  return text;
}

}  // namespace attention
