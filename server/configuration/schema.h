// What a configuration file may say, for editors and checkers.
#pragma once

#include <string>

namespace attention {

/// JSON Schema (draft 2020-12) of a file for --config: each key with its type, range, default and
/// help. What only the rest of the configuration can tell (which option requires which, whether an
/// address is free) is left to --check-config.
std::string ConfigurationSchema();

}  // namespace attention
