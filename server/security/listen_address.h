// Addresses to listen on.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace attention {

/// INVALID_ARGUMENT unless it is HOST:PORT or unix:/PATH.
absl::Status CheckAddress(const std::string& flag, const std::string& address);

/// Only this machine's processes reach it: unix:/PATH, localhost, 127.0.0.0/8, [::1]. Other names
/// are not asked for their addresses.
bool IsLocal(const std::string& address);

}  // namespace attention
