// The hidden states between a job and the prefix cache.
#pragma once

#include <cstdint>
#include <vector>

#include "server/scheduling/job.h"
#include "server/services/plan/attend_plan.h"

namespace attention {

/// The hidden states of a job's sequences: those that it takes from the prefix cache, and those
/// that it adds. Sequences are counted as in the request. Used by the dispatcher's threads.
class PrefixRows {
 public:
  /// Makes the memory, and caches for sequences that take nothing: one without room is computed
  /// without caches. Counts hits and misses.
  void Prepare(AttendPlan& plan);
  /// Returns the rows of a sequence; none when the plan takes and adds nothing.
  EarlierRows Of(int64_t sequence);
  /// Adds the tokens of a computed job to the prefix cache.
  void Keep(AttendPlan& plan) const;

 private:
  struct Rows {
    std::vector<float> earlier;
    std::vector<float> computed;
  };

  int64_t d_model_ = 0;
  std::vector<Rows> rows_;
};

/// Returns how many tokens of the request are not computed.
int64_t CachedTokens(const AttendPlan& plan);
/// Sets what the request takes from the prefix cache in its stats.
void SetCached(const AttendPlan& plan, BatchStats& stats);

}  // namespace attention
