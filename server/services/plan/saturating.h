// Sizes that a request asks for: what does not fit 64 bits is the largest number that does.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>

namespace attention {

/// REQUIRES: neither is negative.
inline int64_t SaturatingSum(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

/// 0 when a factor is 0, whatever the others are. REQUIRES: no factor is negative.
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
