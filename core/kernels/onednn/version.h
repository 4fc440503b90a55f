// The version of oneDNN that this process uses.
#pragma once

#include <string>

namespace attention {

/// Returns the version of the loaded library, such as "3.7.3"; "none" on ARM64.
std::string OneDnnVersion();

}  // namespace attention
