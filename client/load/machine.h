// Where and with what a number was measured.
#pragma once

#include <nlohmann/json.hpp>

namespace attention {

/// {"cpu", "cpus", "isa", "kernel", "version", "compiler", "build_type"} of this process.
nlohmann::json DescribeMachine();

}  // namespace attention
