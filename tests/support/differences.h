// How far numbers are from those that were expected.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace attention {

/// Returns the largest absolute difference; infinite if the sizes differ or a difference is not
/// finite.
inline double LargestDifference(const std::vector<double>& expected,
                                const std::vector<double>& actual) {
  double largest = expected.size() == actual.size() ? 0 : std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < std::min(expected.size(), actual.size()); ++i) {
    const double difference = std::abs(expected[i] - actual[i]);
    largest = std::isfinite(difference) ? std::max(largest, difference)
                                        : std::numeric_limits<double>::infinity();
  }
  return largest;
}

}  // namespace attention
