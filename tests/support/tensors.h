// The values of tensors.
#pragma once

#include <cstring>
#include <vector>

#include "core/tensor/tensor.h"

namespace attention {

inline bool SameBits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

/// REQUIRES: the dtype is kF32.
inline std::vector<float> ValuesOf(const Tensor& tensor) {
  return std::vector<float>(tensor.as<float>(), tensor.as<float>() + tensor.num_elements());
}

}  // namespace attention
