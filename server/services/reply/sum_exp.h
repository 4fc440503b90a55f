// A sum over a vocabulary.
#pragma once

#include <span>

namespace attention {

/// The sum of exp(value - largest). Each term is within 2e-7 of its own size (and 0 below 1e-37);
/// they are added in double. NaN when a value is NaN, or when `largest` is infinite.
/// REQUIRES: no value is larger than `largest`.
double SumExp(std::span<const float> values, float largest);

}  // namespace attention
