// The median of measured values.
#pragma once

#include <algorithm>
#include <iterator>
#include <vector>

namespace attention::bench {

/// Returns the median; of an even number of values the upper one. REQUIRES: not empty.
template <typename Value>
Value MedianOf(std::vector<Value> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace attention::bench
