// Latencies in log-linear buckets: each power of two is cut into 128 equal parts (the idea of
// HdrHistogram, Tene), so any value is known to within 1/128 whatever its size, in at most 58 KiB.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace attention {

class Histogram {
 public:
  /// Records a value; a negative value counts as 0.
  void Record(int64_t value);

  /// Adds the values of `other`. Commutative and associative.
  void Merge(const Histogram& other);

  int64_t count() const { return count_; }
  /// Returns the exact minimum and maximum, and the mean; 0 when empty.
  int64_t min() const { return count_ == 0 ? 0 : min_; }
  int64_t max() const { return max_; }
  double mean() const { return count_ == 0 ? 0.0 : sum_ / static_cast<double>(count_); }

  /// Returns whether there are enough values for a percentile that says more than the maximum does:
  /// 100 for the 99th, 1000 for the 99.9th; one for the 100th.
  bool IsEnoughFor(double percent) const;

  /// Returns the smallest bucket's upper end, at most max(), that at least `percent` (0..100) of
  /// the values do not exceed; 0 when empty.
  int64_t Percentile(double percent) const;

  /// Returns the buckets that hold values, ascending, each with its upper end and count: "1023:5
  /// 1031:17".
  std::string Counts() const;

 private:
  std::vector<int64_t> counts_;  // up to the last bucket that holds any
  int64_t count_ = 0;
  int64_t min_ = 0;
  int64_t max_ = 0;
  double sum_ = 0.0;
};

/// The percentiles in reports.
struct Quantile {
  const char* name;
  double percent;
};
inline constexpr std::array kQuantiles = {Quantile{"p50", 50.0},   Quantile{"p90", 90.0},
                                          Quantile{"p95", 95.0},   Quantile{"p99", 99.0},
                                          Quantile{"p99.9", 99.9}, Quantile{"p99.99", 99.99}};

}  // namespace attention
