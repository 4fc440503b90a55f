// A folder of models on disk: what is in it, and where its paths lead.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace attention {

/// The canonical path of `file` (relative to `folder`), symbolic links followed. NOT_FOUND when
/// there is no such file; INVALID_ARGUMENT when the path escapes the folder, by "..", by being
/// absolute or by a link.
absl::StatusOr<std::string> ResolveInside(const std::string& folder, const std::string& file);

}  // namespace attention
