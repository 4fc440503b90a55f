// Timing of one computation beside the peak of the same minute.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/tensor/dtype.h"

namespace attention::bench {

struct Measurement {
  double median_ns = 0;
  double gflops = 0;
  /// Of the brgemm ukernel, M 64 N 64 K 512 of the same dtype, one thread, timed in turn with the
  /// case; times the number of threads.
  double peak_gflops = 0;
  /// Of the gflops; with `bytes`, of a plain read of as many bytes by as many threads.
  double share = 0;
  /// With `bytes`: of the case, and of the plain read.
  double gb_per_s = 0;
  double read_gb_per_s = 0;
};

struct MeasureOptions {
  Dtype dtype = Dtype::kF32;
  int threads = 1;
  double flop = 0;
  double bytes = 0;
  double seconds = 1;
  /// Whether the peak and the read are timed before the case, and the case call after call: its
  /// data may then stay in the CPU cache.
  bool alone = false;
};

/// Runs `computation` warm, in turn with the peak kernel or the plain read unless it runs `alone`,
/// until `seconds` have passed (at least 7 times each).
Measurement Measure(const MeasureOptions& options, const std::function<void()>& computation);

/// The median time of a plain read of so many bytes of the same memory by so many threads.
double ReadNs(double bytes, int threads);

}  // namespace attention::bench
