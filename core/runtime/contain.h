// The boundary of failures: exceptions thrown behind it are returned as a status.
//
// Inside core and server, an allocation that fails (std::bad_alloc) and a kernel that cannot be
// generated throw exceptions. One of these calls catches each exception, so that it fails only the
// work that was begun there.
#pragma once

#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"

namespace attention {

/// Converts the exception that is being handled to a status; the text names `work` ("computing the
/// batch"). The code is RESOURCE_EXHAUSTED when the system refuses memory or a thread, and INTERNAL
/// for anything else. It does not throw: when there is no memory for the text, the text is empty.
/// REQUIRES: called within a catch clause.
absl::Status StatusOfException(std::string_view work) noexcept;

/// Calls `function` and returns its status or StatusOr. If it throws, returns StatusOfException.
template <typename Function>
std::invoke_result_t<Function> Contain(std::string_view work, Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (...) {
    return StatusOfException(work);
  }
}

/// Does the same for a function that returns nothing.
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
