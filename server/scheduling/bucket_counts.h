// A histogram: values counted by size.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace attention {

/// Bounds for durations in nanoseconds: 50 us to 1 min, in steps of 2 and 2.5, but finer just above
/// 2 and 5 s, where waits end that --max-queue-wait limits.
inline constexpr int64_t kLatencyBoundsNs[] = {
    50'000,         100'000,        200'000,        500'000,       1'000'000,     2'000'000,
    5'000'000,      10'000'000,     20'000'000,     50'000'000,    100'000'000,   200'000'000,
    500'000'000,    1'000'000'000,  2'000'000'000,  2'500'000'000, 5'000'000'000, 6'000'000'000,
    10'000'000'000, 20'000'000'000, 60'000'000'000,
};

/// Counts values in buckets. Thread-compatible: its owner guards it.
class BucketCounts {
 public:
  /// `bounds` are strictly ascending, and outlive the histogram.
  explicit BucketCounts(std::span<const int64_t> bounds = kLatencyBoundsNs)
      : bounds_(bounds), counts_(bounds.size() + 1) {}

  void Observe(int64_t value) {
    ++counts_[std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin()];
    sum_ += value;
  }

  /// Adds the counts of another histogram. REQUIRES: it has the same bounds.
  void Add(const BucketCounts& other) {
    std::transform(counts_.begin(), counts_.end(), other.counts_.begin(), counts_.begin(),
                   std::plus<int64_t>());
    sum_ += other.sum_;
  }

  std::span<const int64_t> bounds() const { return bounds_; }
  /// Returns the counts, one more than there are bounds: counts()[i] counts the values above
  /// bounds[i - 1] up to bounds[i], and the last one counts all larger values.
  const std::vector<int64_t>& counts() const { return counts_; }
  int64_t sum() const { return sum_; }

 private:
  std::span<const int64_t> bounds_;
  std::vector<int64_t> counts_;
  int64_t sum_ = 0;
};

}  // namespace attention
