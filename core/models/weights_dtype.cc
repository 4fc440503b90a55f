#include "core/models/weights_dtype.h"

namespace attention {

std::string_view Name(WeightsDtype dtype) {
  switch (dtype) {
    case WeightsDtype::kBf16:
      return "bf16";
    case WeightsDtype::kInt8:
      return "int8";
    default:
      return "fp32";
  }
}

std::optional<WeightsDtype> ParseWeightsDtype(std::string_view name) {
  for (const WeightsDtype dtype : {WeightsDtype::kF32, WeightsDtype::kBf16, WeightsDtype::kInt8}) {
    if (name == Name(dtype)) {
      return dtype;
    }
  }
  return std::nullopt;
}

}  // namespace attention
