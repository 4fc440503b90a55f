// Divides long computations into slices, between which the caller may compute something else.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "core/kernels/tile/key_block.h"
#include "core/runtime/thread_pool.h"
#include "core/runtime/yield.h"

namespace attention {

/// The number of floating point operations of a slice for each thread: about 10 ms of a core.
inline constexpr double kSliceFlops = 1e9;

/// Returns the number of floating point operations of a slice for all threads of the pool, with
/// `thread_flops` for each.
inline double SliceFlops(const ThreadPool& pool, double thread_flops = kSliceFlops) {
  return thread_flops * pool.num_threads();
}

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
