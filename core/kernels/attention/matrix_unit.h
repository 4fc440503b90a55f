// Few-row products with the bits of a matrix unit (AMX).
#pragma once

#include <cstdint>

namespace attention {

/// Returns the number of steps, which are pairs of elements along k, that oneDNN's kernels put into
/// one tile of the matrix unit for a product of this depth: half of the largest even divisor of
/// `depth` up to 32, as found in oneDNN 3.7. REQUIRES: depth is even.
int64_t MatrixTileSteps(int64_t depth);

/// Returns whether FewRowProduct::kBf16Matrix has the bits of oneDNN's kernels on this processor.
/// The first call computes some small products both ways, in less than a millisecond; false without
/// a matrix unit. Thread-safe. Throws as FindGemm does. REQUIRES: a KernelLease lives.
bool HasMatrixUnitBits();

}  // namespace attention
