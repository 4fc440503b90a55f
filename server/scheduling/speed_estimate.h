// The duration of computations, learned from those that ran.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "core/kernels/onednn/isa.h"
#include "core/runtime/mutex.h"
#include "server/scheduling/request_queue.h"

namespace attention {

/// Returns the floating-point operations per nanosecond that one thread of a fast processor with
/// these abilities can reach in matrix products.
double FastFlopsPerNs(const Abilities& abilities);

/// Fits a line for each kind of batch, ns = begin + flops * slope, by least squares over the
/// batches that ran. Later batches count more, and the first two do not count. Operations beyond
/// twice those of the largest batch that ran are estimated at FastFlopsPerNs. Thread-safe.
class SpeedEstimate {
 public:
  /// The number of kinds that are remembered for models, and the same number for attention without
  /// a model, whose shapes callers choose. The latter never replace the former.
  static constexpr size_t kMaxKinds = 4096;

  /// REQUIRES: both > 0. They decide the estimates of kinds that never ran; `flops_per_ns` is of
  /// one thread.
  SpeedEstimate(int num_threads, double flops_per_ns)
      : guessed_slope_(1.0 / (flops_per_ns * num_threads)) {}

  /// Returns the estimate for a job of `flops` operations in a batch of this key.
  WorkEstimate Estimate(const BatchKey& key, double flops) const;
  /// Counts a batch of this key that had the machine for `used_ns` (BatchOutcome), to its end or
  /// until it was given up.
  void Observe(const BatchKey& key, double flops, int64_t used_ns);

 private:
  /// The sums over past batches.
  struct Sums {
    int64_t batches = 0;
    double largest = 0;  // the most operations of a batch; reduced with the weights
    double weight = 0, flops = 0, flops_squared = 0, ns = 0, flops_ns = 0;
  };
  struct Line {
    double begin = 0, slope = 0;
  };
  using Kind = std::tuple<uint64_t, int64_t, Dtype, int64_t, int64_t>;

  /// The sums of each kind. When there are too many kinds, the one that ran least recently is
  /// forgotten.
  class Kinds {
   public:
    /// Returns null when the kind never ran, or is forgotten.
    const Sums* Find(const Kind& kind) const;
    /// Returns the sums of a kind that has just run.
    Sums& Touch(const Kind& kind);

   private:
    using Recent = std::list<std::pair<Kind, Sums>>;  // the most recent first
    Recent recent_;
    std::map<Kind, Recent::iterator> by_kind_;
  };

  static Kind KindOf(const BatchKey& key);
  Line LineOf(const Sums& sums) const;

  /// Nanoseconds per operation of what never ran.
  const double guessed_slope_;
  mutable Mutex mutex_;
  Kinds models_ ABSL_GUARDED_BY(mutex_);
  Kinds without_model_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace attention
