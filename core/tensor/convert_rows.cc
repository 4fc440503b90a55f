#include "core/tensor/convert_rows.h"

#include "core/tensor/row_blocks.h"

namespace attention {

void ConvertRows(const MatrixView& source, const MutableMatrixView& target, ThreadPool& pool) {
  ForRowBlocks(source.rows, pool, [&](int64_t first, int64_t count) {
    for (int64_t r = first; r < first + count; ++r) {
      Convert(source.dtype, SliceRows(source, r, 1).data, target.dtype,
              SliceRows(target, r, 1).data, source.cols);
    }
  });
}

}  // namespace attention
