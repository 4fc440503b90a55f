// Whose a request is, and how urgent.
#pragma once

#include <string>
#include <string_view>

namespace attention {

/// Shares of the machine are 100 to 10 to 1 while all of them have work.
enum class Priority { kHigh, kNormal, kLow };

/// "high", "normal", "low".
std::string_view Name(Priority priority);

/// The part of the machine that a priority has beside the others.
double ShareOf(Priority priority);

/// Work of a priority is shared out evenly between its tenants.
struct RequestClass {
  Priority priority = Priority::kNormal;
  std::string tenant = {};
  /// Whose shares of queue, replies and sessions it counts in: Caller::account. Several tenants of
  /// callers whom nobody vouches for have one. Empty: nobody's.
  std::string account = {};
};

}  // namespace attention
