// The roundings of rows, in the arithmetic of the product.
#pragma once

#include <cstdint>
#include <vector>

#include "core/kernels/attention/packed_layout.h"

namespace attention {

/// Rounds rows of `width` numbers as a cache stores them; `sign` is that of the numbers that are
/// rounded. Those of 8 bits are what the operands of 8-bit products represent.
void RoundRows(KeyValueStorage storage, int64_t width, float sign, std::vector<double>& rows);

}  // namespace attention
