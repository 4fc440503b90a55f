// How long computations take, learned from those that ran.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "core/runtime/mutex.h"
#include "server/scheduling/request_queue.h"

namespace attention {

/// For each kind of batch a line, ns = begin + flops * slope, by least squares over the batches
/// that ran, of which later ones count more and the first not at all. Nothing but a batch that ran
/// changes it. Thread-safe.
class SpeedEstimate {
 public:
  /// Kinds that are remembered of models, and as many of attention without one, whose shapes
  /// callers choose: those can never push out what is known of models.
  static constexpr size_t kMaxKinds = 4096;

  /// REQUIRES: num_threads > 0. They decide what is thought of kinds that never ran.
  explicit SpeedEstimate(int num_threads) : num_threads_(num_threads) {}

  WorkEstimate Estimate(const BatchKey& key, double flops) const;
  void Observe(const BatchKey& key, double flops, int64_t compute_ns);

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

  /// Forgets the kind that ran least recently when there are too many.
  class Kinds {
   public:
    /// Null when the kind never ran, or is forgotten.
    const Sums* Find(const Kind& kind) const;
    /// Of a kind that has run just now.
    Sums& Touch(const Kind& kind);

   private:
    using Recent = std::list<std::pair<Kind, Sums>>;  // the latest first
    Recent recent_;
    std::map<Kind, Recent::iterator> by_kind_;
  };

  static Kind KindOf(const BatchKey& key);
  Line LineOf(const Sums& sums) const;

  const int num_threads_;
  mutable Mutex mutex_;
  Kinds models_ ABSL_GUARDED_BY(mutex_);
  Kinds bare_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace attention
