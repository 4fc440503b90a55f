// The machine and the build with which a benchmark ran.
#pragma once

#include <nlohmann/json.hpp>

namespace attention {

/// An object with "cpu", "cpus", "isa", "kernel", "version", "compiler" and "build_type".
nlohmann::json DescribeMachine();

}  // namespace attention
