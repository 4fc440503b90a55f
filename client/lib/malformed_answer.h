// The error of an answer that no server should send.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace attention {

/// Returns INTERNAL with "malformed answer: TEXT", where the text is `parts` one after the other.
template <typename... Parts>
absl::Status MalformedAnswer(const Parts&... parts) {
  return absl::InternalError(absl::StrCat("malformed answer: ", parts...));
}

/// Returns the error of an answer without a part that each answer has.
inline absl::Status NotSent(const char* part) {
  return MalformedAnswer(part, ": expected one, found none");
}

}  // namespace attention
