// Ragged batches: sequences of different lengths packed one after the other.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace attention {

/// Rows [first_row, first_row + rows) of one sequence.
struct RowRange {
  int64_t sequence = 0;
  int64_t first_row = 0;
  int64_t rows = 0;
};

/// Consecutive pieces of consecutive sequences, computed together.
using Stage = std::vector<RowRange>;

/// Cuts sequences of `lengths` rows into stages of at least `block_rows` rows each (the last may
/// have fewer; a sequence is never cut into pieces of more than `block_rows`). REQUIRES: block_rows
/// > 0. Empty sequences appear in no stage.
std::vector<Stage> CutIntoStages(std::span<const int64_t> lengths, int64_t block_rows);

}  // namespace attention
