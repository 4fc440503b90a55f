// Points in time that cannot overflow.
#pragma once

#include <chrono>

#include "absl/time/time.h"

namespace attention {

/// Returns the steady clock's time `duration` from now. Where the clock cannot represent it, such
/// as after absl::InfiniteDuration(), it returns the clock's largest time.
inline std::chrono::steady_clock::time_point TimeAfter(absl::Duration duration) {
  constexpr auto kLast = std::chrono::steady_clock::time_point::max();
  const auto now = std::chrono::steady_clock::now();
  const std::chrono::nanoseconds wanted = absl::ToChronoNanoseconds(duration);
  return wanted < kLast - now ? now + wanted : kLast;
}

}  // namespace attention
