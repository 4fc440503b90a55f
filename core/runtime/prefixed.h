// Errors that say where they come from.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace attention {

/// Returns the error with the text "PREFIX: TEXT"; OK for OK. Payloads are dropped, since some
/// refer to places in the text.
inline absl::Status Prefixed(const std::string& prefix, const absl::Status& status) {
  return status.ok() ? status
                     : absl::Status(status.code(),
                                    absl::StrCat(prefix, ": ", std::string(status.message())));
}

}  // namespace attention
