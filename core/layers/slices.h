// Divides long computations into slices, between which the caller may compute something else.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>

#include "absl/status/status.h"
#include "core/kernels/tile/tile_kernels.h"
#include "core/runtime/thread_pool.h"

namespace attention {

/// Returns whether to go on. It is called on the calling thread, never during a ParallelFor. Null:
/// always go on.
using GoOn = std::function<bool()>;

/// The number of floating point operations of a slice for each thread: about 10 ms of a core.
inline constexpr double kSliceFlops = 1e9;

/// The number of floating point operations of a slice for all threads of the pool, with
/// `thread_flops` for each.
inline double SliceFlops(const ThreadPool& pool, double thread_flops = kSliceFlops) {
  return thread_flops * pool.num_threads();
}

/// The number of rows of a slice, each of `row_flops`: a multiple of the key block, at least one
/// block. Without `go_on`: all rows.
inline int64_t RowsPerSlice(double row_flops, const ThreadPool& pool, const GoOn& go_on,
                            double thread_flops = kSliceFlops) {
  if (!go_on || row_flops == 0) {
    return std::numeric_limits<int64_t>::max();
  }
  const auto rows = static_cast<int64_t>(SliceFlops(pool, thread_flops) / row_flops);
  return std::max(rows / kKeyBlock * kKeyBlock, kKeyBlock);
}

/// Returns CANCELLED when `go_on` returns false.
inline absl::Status AskToGoOn(const GoOn& go_on) {
  return !go_on || go_on() ? absl::OkStatus() : absl::CancelledError("cancelled between slices");
}

}  // namespace attention
