// The two products of a tile, query . key and probabilities . values, for every similarity and
// storage.
#pragma once

#include "core/kernels/attention/tile_state.h"

namespace attention {

/// Converts the first `count` keys and values of the key tile at `first_key` to the compute type,
/// if they are stored in another one.
void ExpandKeyValues(const TileState& s, int64_t first_key, int64_t count);

/// Computes the raw scores of the block: query . key, or distances. `block.begin` is a multiple of
/// kKeyBlock, `block.end` of kKeyStep.
void Score(const TileState& s, int64_t first_key, const Block& block);

/// Computes accumulator (+)= probabilities . values over the block's columns. Without `accumulate`
/// the first chain overwrites. `block.begin` is a multiple of kKeyBlock, `block.end` of kKeyStep.
void WeightedSum(const TileState& s, int64_t first_key, const Block& block, bool accumulate);

/// Does the same, but excludes the values that are hidden from a row, since 0 * NaN must not reach
/// it. The bits are the same when all values are finite.
void WeightedSumOfSeen(const TileState& s, int64_t first_key, const Block& block, bool accumulate);

}  // namespace attention
