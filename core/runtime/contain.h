// The boundary of failures: what is thrown behind it comes out as a status.
//
// Inside core and server, memory that is not there (std::bad_alloc) and kernels that cannot be made
// are exceptions, since every allocation can fail; they end at one of these calls, and fail no more
// than the work that was begun there.
#pragma once

#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"

namespace attention {

/// The exception that is being handled, said of `work` ("computing the batch"): RESOURCE_EXHAUSTED
/// for memory or a thread that the system does not give, INTERNAL for anything else. Does not
/// throw: where there is no memory for the text either, the text is empty. REQUIRES: called within
/// a catch clause.
absl::Status StatusOfException(std::string_view work) noexcept;

/// What `function` returns, a status or a StatusOr; of what it throws, StatusOfException.
template <typename Function>
std::invoke_result_t<Function> Contain(std::string_view work, Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (...) {
    return StatusOfException(work);
  }
}

/// The same of a function that returns nothing.
template <typename Function>
absl::Status ContainVoid(std::string_view work, Function&& function) {
  try {
    std::forward<Function>(function)();
    return absl::OkStatus();
  } catch (...) {
    return StatusOfException(work);
  }
}

}  // namespace attention
