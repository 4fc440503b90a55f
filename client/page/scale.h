// From values to places on an axis.
#pragma once

#include <vector>

namespace attention {

struct Range {
  double low = 0.0;
  double high = 1.0;
};

/// Maps `domain` to `pixels` (high below low where an axis points up), beyond its ends as well.
class Scale {
 public:
  /// REQUIRES: domain.low < domain.high.
  static Scale Linear(Range domain, Range pixels) { return Scale(domain, pixels, false); }
  /// REQUIRES: 0 < domain.low < domain.high. Values at or below 0 map to domain.low's place.
  static Scale Log(Range domain, Range pixels) { return Scale(domain, pixels, true); }

  double At(double value) const;
  const Range& domain() const { return domain_; }
  const Range& pixels() const { return pixels_; }

 private:
  Scale(Range domain, Range pixels, bool is_log)
      : domain_(domain), pixels_(pixels), is_log_(is_log) {}

  Range domain_;
  Range pixels_;
  bool is_log_;
};

/// Multiples of 1, 2 or 5 times a power of ten within the range, at most `most` (>= 2) of them.
std::vector<double> LinearTicks(Range range, int most);

/// The same and a range that ends on ticks: from 0 (or the tick below `low` < 0) to the tick at or
/// above `high`. A range without extent gets one.
Range NiceRange(Range range, int most);

/// 1, 2 and 5 times powers of ten within the range, or powers of ten alone, or every n-th of them,
/// so that they are at most `most` (>= 2). REQUIRES: 0 < low <= high.
std::vector<double> LogTicks(Range range, int most);

}  // namespace attention
