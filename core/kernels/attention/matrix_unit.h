// Products of a few bf16 rows beside those that a matrix unit (AMX) computes: the same bits.
#pragma once

#include <cstdint>

namespace attention {

/// Steps, pairs of a row's elements, that oneDNN's kernels put into one tile of the matrix unit for
/// a product `depth` deep: half of the depth's largest even divisor up to 32 (as found in oneDNN
/// 3.7). REQUIRES: depth is even.
int64_t MatrixTileSteps(int64_t depth);

/// Whether StreamProduct::kBf16Matrix has the bits of oneDNN's kernels on this processor. The first
/// call computes some small products both ways, in less than a millisecond; false without a matrix
/// unit. Thread-safe. Throws as FindGemm does. REQUIRES: a KernelLease lives.
bool StreamsAsMatrixUnit();

}  // namespace attention
