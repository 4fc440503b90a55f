// Output of the commands.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace attention {

/// Writes `text` to the file at `path`, whole or not at all, or prints it if `path` is "-".
/// UNAVAILABLE when standard output cannot be written; errors of WriteFile.
absl::Status WriteOutput(const std::string& path, const std::string& text);

}  // namespace attention
