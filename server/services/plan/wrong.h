// How a request is told that it is wrong.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace attention {

/// INVALID_ARGUMENT with the pieces of its text: what it is about, what was expected and what
/// found.
template <typename... Args>
absl::Status Wrong(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(args...));
}

}  // namespace attention
