// Which oneDNN this process runs on.
#pragma once

#include <string>

namespace attention {

/// "3.7.3", of the library that is loaded; "none" on ARM64.
std::string OneDnnVersion();

}  // namespace attention
