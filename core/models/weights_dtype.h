// How the weights of a model are kept, by name.
#pragma once

#include <optional>
#include <string_view>

#include "core/kernels/linear.h"

namespace attention {

/// "fp32", "bf16" or "int8".
std::string_view Name(WeightsDtype dtype);

/// Null for other names.
std::optional<WeightsDtype> ParseWeightsDtype(std::string_view name);

}  // namespace attention
