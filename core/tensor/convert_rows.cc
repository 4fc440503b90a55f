#include "core/tensor/convert_rows.h"

#include <algorithm>

namespace attention {

void ConvertRows(const MatrixView& source, const MutableMatrixView& target, ThreadPool& pool) {
  constexpr int64_t kRows = 16;  // of a task
  pool.ParallelFor((source.rows + kRows - 1) / kRows, [&](int64_t task, int /*worker*/) {
    for (int64_t r = task * kRows; r < std::min(source.rows, (task + 1) * kRows); ++r) {
      Convert(source.dtype, SliceRows(source, r, 1).data, target.dtype,
              SliceRows(target, r, 1).data, source.cols);
    }
  });
}

}  // namespace attention
