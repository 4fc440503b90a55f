// The rows of a slice of a layer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "core/kernels/tile/key_block.h"
#include "core/runtime/slices.h"

namespace attention {

/// Returns the number of rows of a slice, each of `row_flops`: a multiple of the key block, at
/// least one block. Without `yield`: all rows.
inline int64_t RowsPerSlice(double row_flops, const ThreadPool& pool, const Yield& yield,
                            double thread_flops = kSliceFlops) {
  if (!yield || row_flops == 0) {
    return std::numeric_limits<int64_t>::max();
  }
  const auto rows = static_cast<int64_t>(SliceFlops(pool, thread_flops) / row_flops);
  return std::max(rows / kKeyBlock * kKeyBlock, kKeyBlock);
}

}  // namespace attention
