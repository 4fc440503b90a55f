// Uniform draws that are the same with every standard library.
#pragma once

#include <random>

namespace attention {

/// In [0, 1), from the upper 53 bits.
inline double DrawUniform(std::mt19937_64& generator) {
  return static_cast<double>(generator() >> 11) * 0x1p-53;
}

}  // namespace attention
