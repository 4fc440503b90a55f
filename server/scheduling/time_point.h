// The clock of deadlines and durations.
#pragma once

#include <chrono>
#include <cstdint>

namespace attention {

using TimePoint = std::chrono::steady_clock::time_point;

inline int64_t Nanoseconds(TimePoint::duration duration) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
}

}  // namespace attention
