// Headers of HTTP that stand in a file, as they may hold secrets.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace attention {

/// "Name: value" lines; empty ones and those that begin with # apart. NOT_FOUND for a file that
/// cannot be read; INVALID_ARGUMENT names the number of a line that is none, not what it says.
absl::StatusOr<std::vector<std::string>> ReadHeaderFile(const std::string& path);

}  // namespace attention
