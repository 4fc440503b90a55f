#include "core/tensor/ragged.h"

#include <algorithm>

namespace attention {

std::vector<Stage> CutIntoStages(std::span<const int64_t> lengths, int64_t block_rows) {
  std::vector<Stage> stages;
  int64_t rows_in_stage = block_rows;
  for (int64_t sequence = 0; sequence < std::ssize(lengths); ++sequence) {
    for (int64_t row = 0; row < lengths[sequence]; row += block_rows) {
      const int64_t rows = std::min(block_rows, lengths[sequence] - row);
      if (rows_in_stage >= block_rows) {
        stages.emplace_back();
        rows_in_stage = 0;
      }
      stages.back().push_back({sequence, row, rows});
      rows_in_stage += rows;
    }
  }
  return stages;
}

}  // namespace attention
