#include "core/kernels/linear/norm.h"

#include "core/kernels/tile/tile_kernels.h"
#include "core/tensor/row_blocks.h"

namespace attention {

void Norm::Run(const MatrixView& source, const MutableMatrixView& target, ThreadPool& pool,
               const std::optional<MatrixView>& residual) const {
  ForRowBlocks(source.rows, pool, [&](int64_t first, int64_t count) {
    NormTile tile{.source = static_cast<const float*>(source.data) + first * source.row_stride,
                  .source_stride = source.row_stride,
                  .rows = count,
                  .cols = source.cols,
                  .is_rms = is_rms,
                  .epsilon = epsilon,
                  .weight = weight.data(),
                  .bias = bias.empty() ? nullptr : bias.data(),
                  .target = ElementAt(target.data, target.dtype, first * target.row_stride),
                  .target_dtype = target.dtype,
                  .target_stride = target.row_stride};
    if (residual.has_value()) {
      tile.residual = static_cast<const float*>(residual->data) + first * residual->row_stride;
      tile.residual_stride = residual->row_stride;
    }
    CurrentTileKernels().norm(tile);
  });
}

}  // namespace attention
