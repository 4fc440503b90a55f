// What a configuration file may say, for editors and checkers.
#pragma once

#include <string>

namespace attention {

/// JSON Schema (draft 2020-12) of a file for --config: each key with its type, range, default and
/// help. How texts of addresses, durations and models are written, and what only the rest of the
/// configuration or the machine can tell, is left to --check-config.
std::string ConfigurationSchema();

}  // namespace attention
