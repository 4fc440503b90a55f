#include "core/tensor/ragged.h"

#include <algorithm>
#include <cstdlib>

namespace attention {
namespace {

/// Returns the number of rows of a sequence that a stage may hold.
int64_t RowsOfRange(const StageLimits& limits, double row_cost) {
  constexpr int64_t kMinRows = StageLimits::kMinRows;
  if (static_cast<double>(limits.rows) * row_cost <= limits.cost) {
    return limits.rows;
  }
  const int64_t affordable = static_cast<int64_t>(limits.cost / row_cost) / kMinRows * kMinRows;
  return std::min(limits.rows, std::max(affordable, kMinRows));
}

}  // namespace

void Stage::Add(const RowRange& rows) {
  const bool is_later = ranges_.empty() || ranges_.back().sequence < rows.sequence;
  if (is_later) {
    ranges_.push_back(rows);
  } else {
    RowRange& last = ranges_.back();
    if (last.sequence != rows.sequence || last.first_row + last.rows != rows.first_row) {
      std::abort();
    }
    last.rows += rows.rows;
  }
  rows_ += rows.rows;
}

std::vector<Stage> CutIntoStages(std::span<const int64_t> lengths, const StageLimits& limits) {
  std::vector<Stage> stages;
  double stage_cost = 0;
  for (int64_t sequence = 0; sequence < std::ssize(lengths); ++sequence) {
    const double row_cost = limits.row_costs.empty() ? 0 : limits.row_costs[sequence];
    const int64_t piece_rows = RowsOfRange(limits, row_cost);
    int64_t rows = 0;
    for (int64_t row = 0; row < lengths[sequence]; row += rows) {
      rows = std::min(piece_rows, lengths[sequence] - row);
      const double cost = static_cast<double>(rows) * row_cost;
      const int64_t stage_rows = rows + (stages.empty() ? 0 : stages.back().rows());
      const bool is_too_much = stage_rows > limits.rows || (stage_cost + cost > limits.cost &&
                                                            stage_rows > StageLimits::kMinRows);
      if (stages.empty() || is_too_much) {
        stages.emplace_back();
        stage_cost = 0;
      }
      stages.back().Add({sequence, row, rows});
      stage_cost += cost;
    }
  }
  return stages;
}

}  // namespace attention
