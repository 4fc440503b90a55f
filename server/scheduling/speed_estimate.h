// How long computations take, learned from those that ran.
#pragma once

#include <cstdint>
#include <map>

#include "core/runtime/mutex.h"
#include "server/scheduling/request_queue.h"

namespace attention {

/// For each kind of batch a line, ns = begin + flops * slope, by least squares over the batches
/// that ran, of which later ones count more and the first not at all. Thread-safe.
class SpeedEstimate {
 public:
  /// REQUIRES: num_threads > 0. They decide what is thought of kinds that never ran.
  explicit SpeedEstimate(int num_threads) : num_threads_(num_threads) {}

  WorkEstimate Estimate(const BatchKey& key, double flops) const;
  void Observe(const BatchKey& key, double flops, int64_t compute_ns);
  /// Something was refused for what it would take alone: with no further news, that is believed
  /// less and less, so that one hiccup does not shut a kind out for good.
  void Doubt(const BatchKey& key);

 private:
  /// Sums over past batches.
  struct Sums {
    int64_t batches = 0;
    double weight = 0, flops = 0, flops_squared = 0, ns = 0, flops_ns = 0;
  };
  struct Line {
    double begin = 0, slope = 0;
  };
  using Kind = std::tuple<const void*, int64_t, Dtype, int64_t>;

  static Kind KindOf(const BatchKey& key);
  Line LineOf(const Sums& sums) const;

  const int num_threads_;
  mutable Mutex mutex_;
  std::map<Kind, Sums> kinds_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace attention
