// The callback by which long work on a text is cancelled.
#pragma once

#include <functional>

#include "absl/status/status.h"

namespace attention {

/// A function that is called between parts of the work; false ends the work. May be null.
using GoOn = std::function<bool()>;

inline absl::Status Ask(const GoOn& go_on) {
  return go_on == nullptr || go_on()
             ? absl::OkStatus()
             : absl::CancelledError("text: cancelled while it was cut into tokens");
}

}  // namespace attention
