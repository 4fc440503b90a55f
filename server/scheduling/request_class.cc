#include "server/scheduling/request_class.h"

namespace attention {

std::string_view Name(Priority priority) {
  switch (priority) {
    case Priority::kHigh:
      return "high";
    case Priority::kNormal:
      return "normal";
    default:
      return "low";
  }
}

std::optional<Priority> PriorityNamed(std::string_view name) {
  for (const Priority priority : {Priority::kHigh, Priority::kNormal, Priority::kLow}) {
    if (name == Name(priority)) {
      return priority;
    }
  }
  return std::nullopt;
}

double ShareOf(Priority priority) {
  switch (priority) {
    case Priority::kHigh:
      return 100;
    case Priority::kNormal:
      return 10;
    default:
      return 1;
  }
}

}  // namespace attention
