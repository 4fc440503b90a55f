// Reads a whole file of bounded size.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace attention {

/// Reads the file. NOT_FOUND, with the system's reason, when it cannot be opened; INVALID_ARGUMENT
/// when it is a folder, or has more than `max_bytes`, of which no more are read.
absl::StatusOr<std::string> ReadTextFile(const std::string& path, size_t max_bytes);

}  // namespace attention
