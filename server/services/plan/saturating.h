// Sums and products of sizes that a request chooses. A result that does not fit 64 bits becomes the
// largest number that does.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>

namespace attention {

/// Returns a + b, or the largest number. REQUIRES: a >= 0 and b >= 0.
inline int64_t SaturatingSum(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

/// Returns the product, or the largest number; 0 when any factor is 0. REQUIRES: no factor is
/// negative.
inline int64_t SaturatingProduct(std::span<const int64_t> factors) {
  int64_t product = 1;
  for (const int64_t factor : factors) {
    if (factor == 0) {
      return 0;
    }
    if (__builtin_mul_overflow(product, factor, &product)) {
      product = std::numeric_limits<int64_t>::max();
    }
  }
  return product;
}

inline int64_t SaturatingProduct(std::initializer_list<int64_t> factors) {
  return SaturatingProduct(std::span(factors.begin(), factors.size()));
}

}  // namespace attention
