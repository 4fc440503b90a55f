// Files that are written whole or not at all.
#pragma once

#include <initializer_list>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace attention {

/// Writes `parts` one after the other to the file at `path`, and replaces what was there only when
/// all is written. INVALID_ARGUMENT names a file that cannot be written.
absl::Status WriteFile(const std::string& path, std::initializer_list<absl::string_view> parts);

/// Writes `text` to the file at `path`, or prints it if `path` is "-". UNAVAILABLE when standard
/// output is closed.
absl::Status WriteOutput(const std::string& path, const std::string& text);

}  // namespace attention
