// A sum of exponentials over a vocabulary.
#pragma once

#include <span>

namespace attention {

/// Returns the sum of exp(value - largest). Each term is within 2e-7 of its size (and 0 below
/// 1e-37); the terms are added in double. Returns NaN when a value is NaN, or when `largest` is
/// infinite. REQUIRES: no value is larger than `largest`.
double SumExp(std::span<const float> values, float largest);

}  // namespace attention
