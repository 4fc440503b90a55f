// The callback by which long work lets its caller compute something else, or cancel it.
#pragma once

#include <functional>

#include "absl/status/status.h"

namespace attention {

/// A function that long work calls between slices, on the calling thread and never during a
/// ParallelFor; returns whether to continue. Null: always continue.
using Yield = std::function<bool()>;

/// Returns CANCELLED when `yield` returns false.
inline absl::Status CallYield(const Yield& yield) {
  return yield == nullptr || yield() ? absl::OkStatus()
                                     : absl::CancelledError("cancelled between slices");
}

}  // namespace attention
