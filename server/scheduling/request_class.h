// The caller of a request, and its priority.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace attention {

/// The priorities share the machine by 100 to 10 to 1 while all of them have work.
enum class Priority { kHigh, kNormal, kLow };

/// Returns "high", "normal" or "low".
std::string_view Name(Priority priority);
/// Returns the priority of that name; null for another text.
std::optional<Priority> PriorityNamed(std::string_view name);

/// Returns the share of the machine that a priority has.
double ShareOf(Priority priority);

/// The priority of a request, and its caller as the scheduler knows it. The tenants of a priority
/// share its part of the machine evenly.
struct RequestClass {
  Priority priority = Priority::kNormal;
  std::string tenant = {};
  /// The account in whose shares of queue, replies and sessions the request counts:
  /// Caller::account. Several tenants whose names are not proven have one account. Empty: no
  /// account.
  std::string account = {};
};

}  // namespace attention
