// HTTP headers in a file, since they may hold secrets.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace attention {

/// Reads lines "Name: value". Empty lines and lines that begin with # are skipped. NOT_FOUND for a
/// file that cannot be opened; INVALID_ARGUMENT for a folder, and for an invalid line, whose number
/// it gives, but not its text.
absl::StatusOr<std::vector<std::string>> ReadHeaderFile(const std::string& path);

}  // namespace attention
