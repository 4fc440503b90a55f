// Bit for bit.
#pragma once

#include <cstring>

#include "core/tensor/tensor.h"

namespace attention {

inline bool SameBits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         (a.size_bytes() == 0 || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

}  // namespace attention
