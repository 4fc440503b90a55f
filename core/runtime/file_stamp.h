// A text that changes when a file changes.
#pragma once

#include <string>

namespace attention {

/// Returns a text that changes when the file is replaced, written to, created or removed, by what
/// stat says. Links are followed.
std::string FileStamp(const std::string& path);

}  // namespace attention
