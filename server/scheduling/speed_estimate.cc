#include "server/scheduling/speed_estimate.h"

#include <algorithm>

namespace attention {
namespace {

// What an older batch counts beside the one after it.
constexpr double kDecay = 0.9;
// Batches of a kind that come first generate code and touch memory for the first time.
constexpr int64_t kFirstBatches = 2;
constexpr double kDoubt = 0.9;
// Of one thread, before anything ran: of a fast machine, so that nothing is refused on a guess.
constexpr double kGuessedNsPerFlop = 1.0 / 100;
// Batches of less say more of what a batch costs to begin than of what more work costs.
constexpr double kTellingFlops = 1e8;
// Unloaded models leave their kinds behind.
constexpr size_t kMaxKinds = 4096;

}  // namespace

SpeedEstimate::Kind SpeedEstimate::KindOf(const BatchKey& key) {
  return {key.model, key.layer, key.dtype, key.num_heads * key.head_dim};
}

SpeedEstimate::Line SpeedEstimate::LineOf(const Sums& s) const {
  const double spread = s.weight * s.flops_squared - s.flops * s.flops;
  if (spread > 1e-3 * s.weight * s.flops_squared) {
    const double slope = (s.weight * s.flops_ns - s.flops * s.ns) / spread;
    const double begin = (s.ns - slope * s.flops) / s.weight;
    if (slope > 0 && begin >= 0) {
      return {begin, slope};
    }
  }
  const double mean_ns = s.ns / s.weight;
  const double mean_flops = s.flops / s.weight;
  const double guess = kGuessedNsPerFlop / num_threads_;
  if (mean_flops < kTellingFlops && mean_ns > mean_flops * guess) {
    return {mean_ns - mean_flops * guess, guess};
  }
  return {0, s.flops > 0 ? s.ns / s.flops : 0};
}

WorkEstimate SpeedEstimate::Estimate(const BatchKey& key, double flops) const {
  MutexLock lock(mutex_);
  const auto found = kinds_.find(KindOf(key));
  if (found == kinds_.end() || found->second.weight == 0) {
    return {.added_ns = static_cast<int64_t>(flops * kGuessedNsPerFlop / num_threads_)};
  }
  const Line line = LineOf(found->second);
  const double added = flops * line.slope;
  return {static_cast<int64_t>(added), static_cast<int64_t>(line.begin + added)};
}

void SpeedEstimate::Observe(const BatchKey& key, double flops, int64_t compute_ns) {
  MutexLock lock(mutex_);
  if (kinds_.size() >= kMaxKinds) {
    kinds_.clear();
  }
  Sums& s = kinds_[KindOf(key)];
  if (s.batches++ < kFirstBatches) {
    return;
  }
  const auto ns = static_cast<double>(compute_ns);
  s = {s.batches,
       s.weight * kDecay + 1,
       s.flops * kDecay + flops,
       s.flops_squared * kDecay + flops * flops,
       s.ns * kDecay + ns,
       s.flops_ns * kDecay + flops * ns};
}

void SpeedEstimate::Doubt(const BatchKey& key) {
  MutexLock lock(mutex_);
  if (const auto found = kinds_.find(KindOf(key)); found != kinds_.end()) {
    found->second.ns *= kDoubt;
    found->second.flops_ns *= kDoubt;
  }
}

}  // namespace attention
