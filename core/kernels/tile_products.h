// The two products of a tile, query . key and probabilities . values, of whatever kind the sequence
// and its storage ask for.
#pragma once

#include "core/kernels/tile_state.h"

namespace attention {

/// Brings the keys and values of the tile of keys at `first_key`, of which `count` are wanted, to
/// the compute type where they are stored otherwise.
void ExpandKeyValues(const TileState& s, int64_t first_key, int64_t count);

/// Raw scores of the block: query . key, or what the distances kernel makes. `block.begin` is a
/// multiple of kKeyBlock, `block.end` of kKeyStep.
void Score(const TileState& s, int64_t first_key, const Block& block);

/// accumulator (+)= probabilities . values over the block's columns; without `accumulate` its first
/// chain overwrites. `block.begin` is a multiple of kKeyBlock, `block.end` of kKeyStep.
void WeightedSum(const TileState& s, int64_t first_key, const Block& block, bool accumulate);

/// The same over values that do not matter to a row that does not see them, whether or not they are
/// finite: 0 * NaN must not reach it. The same bits wherever all values are finite.
void WeightedSumOfSeen(const TileState& s, int64_t first_key, const Block& block, bool accumulate);

}  // namespace attention
