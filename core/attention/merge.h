// Attention over a key set from attention over its parts: what lets a long sequence be spread over
// several servers. No oneDNN: clients merge too.
#pragma once

#include <cstdint>
#include <span>

namespace attention {

/// Extents of every part.
struct PartialExtents {
  int64_t query_len = 0;
  int64_t num_heads = 0;
  int64_t value_head_dim = 0;
};

/// The answer for one part of the keys, computed without sinks. Borrowed, dense.
struct PartialResult {
  const float* output = nullptr;       // [query_len, num_heads, value_head_dim]
  const float* log_sum_exp = nullptr;  // [num_heads, query_len]
};

/// Where the answer for all keys goes: shapes as PartialResult's. `output` may be a part's own.
struct MergedResult {
  float* output = nullptr;
  float* log_sum_exp = nullptr;  // or null
};

/// The answer over all keys of `parts`, which are disjoint: parts are weighted by
/// exp(log_sum_exp), in double precision. `sinks` [num_heads] (or empty) join each row's
/// denominator here, once; they are not in the log-sum-exp. A row that no part has a key for gives
/// zeros and -infinity.
void MergePartials(const PartialExtents& extents, std::span<const PartialResult> parts,
                   std::span<const float> sinks, const MergedResult& merged);

}  // namespace attention
