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

/// Rows that are computed together: at most one row range of each sequence, in the order of the
/// sequences. Row ranges of different sequences are independent, so threads may work on all of them
/// at the same time, even where a sequence keeps state for its next rows (the sums of linear
/// attention, a cache that grows). Two row ranges of one sequence belong into two stages, one after
/// the other.
class Stage {
 public:
  Stage() = default;

  /// Adds rows of a later sequence, or the next rows of the last sequence, which extend its row
  /// range. Ends the process for any other rows, since they would run at the same time as rows that
  /// they depend on.
  void Add(const RowRange& rows);

  bool empty() const { return ranges_.empty(); }
  /// Iterates over the row ranges, each of a different sequence.
  std::vector<RowRange>::const_iterator begin() const { return ranges_.begin(); }
  std::vector<RowRange>::const_iterator end() const { return ranges_.end(); }
  /// REQUIRES: not empty.
  const RowRange& front() const { return ranges_.front(); }
  /// Returns the number of rows of all row ranges.
  int64_t rows() const { return rows_; }

 private:
  std::vector<RowRange> ranges_;
  int64_t rows_ = 0;
};

/// The limits of a stage.
struct StageLimits {
  /// The number of rows that a stage may have at any cost. Sequences are cut at multiples of it.
  static constexpr int64_t kMinRows = 64;

  int64_t rows = std::numeric_limits<int64_t>::max();
  double cost = std::numeric_limits<double>::infinity();
  /// The cost of a row of each sequence; empty: 0.
  std::span<const double> row_costs = {};
};

/// Cuts sequences of `lengths` rows into stages within the limits, such that two neighbours
/// together exceed them. Every row range starts at a multiple of the number of rows that a stage
/// may hold of its sequence. REQUIRES: limits.rows > 0. Empty sequences appear in no stage.
std::vector<Stage> CutIntoStages(std::span<const int64_t> lengths, const StageLimits& limits);

inline std::vector<Stage> CutIntoStages(std::span<const int64_t> lengths, int64_t block_rows) {
  return CutIntoStages(lengths, StageLimits{.rows = block_rows});
}

}  // namespace attention
