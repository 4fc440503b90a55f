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

/// Rows that are computed together: at most one piece of each sequence, in the order of the
/// sequences. So the pieces are independent of each other: threads may work on all of them at once,
/// even where a piece keeps state for the next rows of its sequence (the sums of linear attention,
/// a cache that grows). Two pieces of one sequence belong into two stages, one after the other.
class Stage {
 public:
  Stage() = default;

  /// Adds rows of a later sequence, or the next rows of the last one, which make its piece longer.
  /// Ends the process for any other rows: they would run beside rows that they depend on.
  void Add(const RowRange& rows);

  bool empty() const { return pieces_.empty(); }
  /// The pieces, each of another sequence.
  std::vector<RowRange>::const_iterator begin() const { return pieces_.begin(); }
  std::vector<RowRange>::const_iterator end() const { return pieces_.end(); }
  /// REQUIRES: not empty.
  const RowRange& front() const { return pieces_.front(); }
  /// Rows of all pieces.
  int64_t rows() const { return rows_; }

 private:
  std::vector<RowRange> pieces_;
  int64_t rows_ = 0;
};

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
/// together exceed them. Every piece starts at a multiple of as many rows as a stage may hold of
/// its sequence. REQUIRES: limits.rows > 0. Empty sequences appear in no stage.
std::vector<Stage> CutIntoStages(std::span<const int64_t> lengths, const StageLimits& limits);

inline std::vector<Stage> CutIntoStages(std::span<const int64_t> lengths, int64_t block_rows) {
  return CutIntoStages(lengths, StageLimits{.rows = block_rows});
}

}  // namespace attention
