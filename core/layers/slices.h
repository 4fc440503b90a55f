// Long computations in slices, between which the caller may do something else.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "core/kernels/attention_plan.h"
#include "core/runtime/thread_pool.h"

namespace attention {

/// Floating point operations of a slice for each thread: some 10 ms of a slow core.
inline constexpr double kSliceFlops = 1e9;

/// Rows of a slice, each of `flops_of_row`: a multiple of the key block, at least one.
inline int64_t SliceRows(double flops_of_row, const ThreadPool& pool) {
  const double rows = kSliceFlops * pool.num_threads() / std::max(flops_of_row, 1.0);
  return std::max(static_cast<int64_t>(rows) / kKeyBlock * kKeyBlock, kKeyBlock);
}

/// CANCELLED when `go_on` is there and says no.
inline absl::Status AskToGoOn(const std::function<bool()>& go_on) {
  return go_on == nullptr || go_on() ? absl::OkStatus()
                                     : absl::CancelledError("cancelled between slices");
}

}  // namespace attention
