#include "server/scheduling/speed_estimate.h"

#include <algorithm>

namespace attention {
namespace {

// The factor by which each batch reduces the weight of all earlier batches.
constexpr double kDecay = 0.9;
// The factor of a batch that took less than half of the expected time. A temporary delay or a
// slower machine then affected the earlier batches, whose estimate would refuse requests.
constexpr double kDecayWhenFaster = 0.5;
// The number of first batches of a kind that are not measured: they generate code, and touch memory
// for the first time.
constexpr int64_t kFirstBatches = 2;
// The clock of a fast machine, in GHz. The guess is that of a fast machine, so that no request is
// refused because of it.
constexpr double kFastGigahertz = 3.2;
// The operations of the matrix unit in a cycle: 16 x 16 sums of 32 products in 16 cycles.
constexpr double kMatrixUnitFlops = 1024;
// The minimum operations of a batch from which the slope can be learned. Smaller batches show the
// fixed cost.
constexpr double kMinSlopeFlops = 1e8;
// The factor of the largest batch up to which the line counts. Beyond it a line through batches of
// nearly one size, such as steps that wait for the weights, may be wrong by any factor.
constexpr double kLineRange = 2;

}  // namespace

double FastFlopsPerNs(const Abilities& abilities) {
  const double lanes = abilities.vector_bits / 32.0;
  // Two multiply-adds of a vector in a cycle.
  const double flops_per_cycle =
      abilities.bf16 == Products::kMatrixUnit ? kMatrixUnitFlops : 2 * 2 * lanes;
  return flops_per_cycle * kFastGigahertz;
}

SpeedEstimate::Kind SpeedEstimate::KindOf(const BatchKey& key) {
  return {key.model_number, key.layer, key.dtype, key.num_heads, key.head_dim};
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
  if (mean_flops < kMinSlopeFlops && mean_ns > mean_flops * guessed_slope_) {
    return {mean_ns - mean_flops * guessed_slope_, guessed_slope_};
  }
  return {0, s.flops > 0 ? s.ns / s.flops : 0};
}

const SpeedEstimate::Sums* SpeedEstimate::Kinds::Find(const Kind& kind) const {
  const auto found = by_kind_.find(kind);
  return found == by_kind_.end() ? nullptr : &found->second->second;
}

SpeedEstimate::Sums& SpeedEstimate::Kinds::Touch(const Kind& kind) {
  if (const auto found = by_kind_.find(kind); found != by_kind_.end()) {
    recent_.splice(recent_.begin(), recent_, found->second);
  } else {
    recent_.emplace_front(kind, Sums());
    try {
      by_kind_.emplace(kind, recent_.begin());
    } catch (...) {
      recent_.pop_front();
      throw;
    }
  }
  if (recent_.size() > kMaxKinds) {
    by_kind_.erase(recent_.back().first);
    recent_.pop_back();
  }
  return recent_.front().second;
}

WorkEstimate SpeedEstimate::Estimate(const BatchKey& key, double flops) const {
  MutexLock lock(mutex_);
  const Sums* const sums = (key.model == nullptr ? without_model_ : models_).Find(KindOf(key));
  if (sums == nullptr || sums->weight == 0) {
    return {.added_ns = static_cast<int64_t>(flops * guessed_slope_)};
  }
  const Line line = LineOf(*sums);
  const double in_range = std::min(flops, kLineRange * sums->largest);
  const double guess = std::min(line.slope, guessed_slope_);
  const double added = in_range * line.slope + (flops - in_range) * guess;
  return {static_cast<int64_t>(added), static_cast<int64_t>(line.begin + added)};
}

void SpeedEstimate::Observe(const BatchKey& key, double flops, int64_t used_ns) {
  if (flops <= 0) {
    return;  // the line describes only the time of operations
  }
  MutexLock lock(mutex_);
  Sums& s = (key.model == nullptr ? without_model_ : models_).Touch(KindOf(key));
  if (s.batches++ < kFirstBatches) {
    return;
  }
  const auto ns = static_cast<double>(used_ns);
  double decay = kDecay;
  if (s.weight > 0) {
    const Line line = LineOf(s);
    decay = ns < (line.begin + flops * line.slope) / 2 ? kDecayWhenFaster : kDecay;
  }
  s = {s.batches,
       std::max(flops, s.largest * decay),
       s.weight * decay + 1,
       s.flops * decay + flops,
       s.flops_squared * decay + flops * flops,
       s.ns * decay + ns,
       s.flops_ns * decay + flops * ns};
}

}  // namespace attention
