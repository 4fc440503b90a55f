// Which names a model may have.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace attention {

/// Returns INVALID_ARGUMENT, which quotes the name, unless it has 1 to 128 letters, digits, dots,
/// dashes and underscores.
absl::Status ValidateModelName(const std::string& name);

}  // namespace attention
