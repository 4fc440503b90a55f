// Ragged batches: sequences of different lengths packed one after the other.
#pragma once

#include <cstdint>
#include <limits>
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

/// How much a stage may hold.
struct StageLimits {
  /// Rows that a stage may have whatever they cost; pieces are cut at multiples of it.
  static constexpr int64_t kMinRows = 64;

  int64_t rows = std::numeric_limits<int64_t>::max();
  double cost = std::numeric_limits<double>::infinity();
  /// Of a row of each sequence; empty: 0.
  std::span<const double> row_costs = {};
};

/// Cuts sequences of `lengths` rows into stages within the limits, such that two neighbours
/// together exceed them. A sequence is cut at multiples of as many of its rows as a stage may hold.
/// REQUIRES: limits.rows > 0. Empty sequences appear in no stage.
std::vector<Stage> CutIntoStages(std::span<const int64_t> lengths, const StageLimits& limits);

inline std::vector<Stage> CutIntoStages(std::span<const int64_t> lengths, int64_t block_rows) {
  return CutIntoStages(lengths, StageLimits{.rows = block_rows});
}

}  // namespace attention
