// The JSON Schema of a configuration file, for editors and checkers.
#pragma once

#include <string>

namespace attention {

/// Returns the JSON Schema (draft 2020-12) of a file for --config: each key with its type, range,
/// default and help. The schema does not check the syntax of addresses, durations and models, nor
/// anything that depends on other options or on the machine: --check-config does.
std::string ConfigurationSchema();

}  // namespace attention
