// The products of a random case's layer, in double precision.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/core/fuzz/fuzz_weights.h"

namespace attention {

/// The rows of a sequence, dense: of queries, and of keys and values.
struct FuzzRows {
  std::vector<double> query, key, value;
};

/// Replaces rows from which the layer computes queries, keys and values by these. Of self-attention
/// the last keys and values belong to the rows of the queries; those before are in a cache.
void Project(const FuzzWeights& weights, FuzzRows& rows);
/// Appends the layer's extra keys and values.
void AppendExtraKeys(const FuzzWeights& weights, FuzzRows& rows);
/// The layer's first num_heads * value_head_dim columns from rows of as many.
std::vector<double> ProjectOutput(const FuzzWeights& weights, std::vector<double> rows);

}  // namespace attention
