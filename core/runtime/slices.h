// Divides long computations into slices, between which the caller may compute something else.
#pragma once

#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "core/runtime/status_macros.h"
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

/// How long work is divided.
struct Slices {
  /// Called between slices. Null: the work is one slice.
  Yield yield = nullptr;
  /// The number of floating point operations of a slice, for all threads.
  double flops = std::numeric_limits<double>::infinity();
};

/// Calls run(first, end) for consecutive ranges of [0, count), and yields between them. cost(i) is
/// the number of operations of index i; those of a range add up to at most slices.flops, unless it
/// is a single index. CANCELLED when the caller wants no more.
template <typename Cost, typename Run>
absl::Status RunInSlices(const Slices& slices, int64_t count, const Cost& cost, const Run& run) {
  if (slices.yield == nullptr) {
    run(0, count);
    return absl::OkStatus();
  }
  for (int64_t first = 0; first < count;) {
    if (first > 0) {
      RETURN_IF_ERROR(CallYield(slices.yield));
    }
    double flops = cost(first);
    int64_t end = first + 1;
    while (end < count && (flops += cost(end)) <= slices.flops) {
      ++end;
    }
    run(first, end);
    first = end;
  }
  return absl::OkStatus();
}

}  // namespace attention
