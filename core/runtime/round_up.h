// Division that rounds up.
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>

namespace attention {

/// Returns value / divisor, rounded up. REQUIRES: value >= 0.
template <std::integral Int>
constexpr Int CeilDiv(Int value, std::type_identity_t<Int> divisor) {
  return (value + divisor - 1) / divisor;
}

/// Returns the smallest multiple of `multiple` that is not less than `value` >= 0.
template <std::integral Int>
constexpr Int RoundUp(Int value, std::type_identity_t<Int> multiple) {
  return CeilDiv(value, multiple) * multiple;
}

/// Returns the next multiple of 64: what begins there shares no cache line with what lies before.
constexpr size_t RoundUpToLine(size_t bytes) { return RoundUp(bytes, 64); }

}  // namespace attention
