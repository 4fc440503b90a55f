// Combines attention over disjoint parts of the keys into attention over all keys, so that a long
// sequence can be spread over several servers. It needs no oneDNN, since clients use it too.
#pragma once

#include <cstdint>
#include <span>

namespace attention {

/// The extents that all parts share.
struct PartialExtents {
  int64_t query_len = 0;
  int64_t num_heads = 0;
  int64_t value_head_dim = 0;
};

/// The result over one part of the keys, computed without sinks. Borrowed, dense.
struct PartialResult {
  const float* output = nullptr;       // [query_len, num_heads, value_head_dim]
  const float* log_sum_exp = nullptr;  // [num_heads, query_len]
};

/// The memory for the result over all keys, with the shapes of PartialResult. `output` may be the
/// output of a part.
struct MergedResult {
  float* output = nullptr;
  float* log_sum_exp = nullptr;  // or null
};

/// Writes the result over the keys of all `parts`, which are disjoint. Parts are weighted by
/// exp(log_sum_exp), in double precision. `sinks` [num_heads] (or empty) are added to the
/// denominator of each row here, once; they are not part of the log-sum-exp. A row that attends to
/// no key in any part gets zeros and -infinity.
void MergePartials(const PartialExtents& extents, std::span<const PartialResult> parts,
                   std::span<const float> sinks, const MergedResult& merged);

}  // namespace attention
