// Points of time that cannot overflow.
#pragma once

#include <chrono>

#include "absl/time/time.h"

namespace attention {

/// The steady clock's time after `duration` from now, or its last one where that is beyond what it
/// counts, such as after absl::InfiniteDuration().
inline std::chrono::steady_clock::time_point TimeAfter(absl::Duration duration) {
  constexpr auto kLast = std::chrono::steady_clock::time_point::max();
  const auto now = std::chrono::steady_clock::now();
  const std::chrono::nanoseconds wanted = absl::ToChronoNanoseconds(duration);
  return wanted < kLast - now ? now + wanted : kLast;
}

}  // namespace attention
