#include "core/kernels/linear/linear_tile.h"

#include <algorithm>
#include <array>

#include "core/kernels/linear/pack_weights.h"
#include "core/kernels/tile/tile_kernels.h"

namespace attention {
namespace {

constexpr int64_t kTileElements = kRowTile * kColumnBlock;

/// Returns the output that has row `row` of the result.
const OutputRows* OutputOf(const PackedLinear::Call& call, int64_t row) {
  return &*(std::upper_bound(call.outputs.begin(), call.outputs.end(), row,
                             [](int64_t r, const OutputRows& o) { return r < o.first_row; }) -
            1);
}

/// Returns the memory of the result for `rows` rows from `first_row` on and a block of columns, or
/// null when they are not all in one output.
float* RowsOf(const PackedLinear::Call& call, int64_t first_row, int64_t rows, int64_t column) {
  const OutputRows& output = *OutputOf(call, first_row);
  const int64_t row = first_row - output.first_row;
  if (row + rows > output.view.rows || column + kColumnBlock > output.view.cols) {
    return nullptr;
  }
  return static_cast<float*>(output.view.data) + row * output.view.row_stride + column;
}

}  // namespace

const float* PackedLinear::Bias(int64_t block) const {
  return reinterpret_cast<const float*>(bias_.data()) + block * kColumnBlock;
}

void PackedLinear::Multiply(const Tile& tile, const Kernels& kernels, int64_t block,
                            float* product) const {
  const int64_t element_bytes = is_int8() ? 1 : static_cast<int64_t>(SizeOf(format_.compute));
  const float* widened = tile.widened;
  const int64_t next_block = std::min(block + (format_.is_gated ? 2 : 1), num_blocks() - 1);
  const std::byte* upcoming = Block(next_block) + tile.first_prefetch;
  if (kernels.widens_before && format_.is_gated) {
    widened += block % 2 * in_features_ * kColumnBlock;
  }
  for (int64_t column = 0; column < kColumnBlock; column += kernels.columns) {
    for (int64_t depth = 0; depth < kernels.depth; depth += kernels.chain) {
      const Gemm* gemm = depth == 0                               ? kernels.first
                         : depth + kernels.chain <= kernels.depth ? kernels.next
                                                                  : kernels.last;
      const int64_t before = column * in_features_ + depth * kernels.columns;
      const void* weights = kernels.widens_before ? static_cast<const void*>(widened + before)
                                                  : Block(block) + BytesOf(before);
      for (int64_t byte = 0; byte < tile.prefetch_bytes; byte += 64) {
        __builtin_prefetch(upcoming + byte, /*rw=*/0, /*locality=*/2);
      }
      upcoming += tile.prefetch_bytes;
      gemm->Run(tile.input.rows + depth * element_bytes, weights, product + column);
    }
  }
  if (is_int8()) {
    const float* scales = Int8Scales(Block(block), in_features_);
    CurrentTileKernels().dequantise_scores({.scores = product,
                                            .stride = kColumnBlock,
                                            .rows = kernels.rows,
                                            .cols = kColumnBlock,
                                            .query_scales = tile.input.scales,
                                            .key_scales = scales,
                                            .key_offsets = scales + kColumnBlock});
  }
}

/// Writes a bf16 block, or the two of a gated map, as f32 panels. A few rows at a time become all
/// panels, so that memory is read in order.
void PackedLinear::Widen(int64_t block, float* target) const {
  constexpr int64_t kRows = 32;
  const int64_t count = format_.is_gated ? 2 : 1;
  const int64_t columns = PanelColumns();
  for (int64_t i = block * count; i < (block + 1) * count; ++i) {
    for (int64_t row = 0; row < in_features_; row += kRows) {
      for (int64_t column = 0; column < kColumnBlock; column += columns) {
        CurrentTileKernels().expand({.source = Block(i) + BytesOf(row * kColumnBlock) + 4 * column,
                                     .source_cols = kColumnBlock,
                                     .rows = std::min(kRows, in_features_ - row),
                                     .cols = columns,
                                     .target = target + column * in_features_ + row * columns});
      }
    }
    target += in_features_ * kColumnBlock;
  }
}

void PackedLinear::RunTile(const Call& call, const Tile& tile) const {
  const int64_t packed_block = format_.is_gated ? 2 * tile.block : tile.block;
  const int64_t column = tile.block * kColumnBlock - columns_[call.first_part];
  // The processor writes to the result while it multiplies. Copied from a buffer afterwards, the
  // result would take 4 % of a layer's time.
  if (float* target = tile.in_place == nullptr
                          ? nullptr
                          : RowsOf(call, tile.first_row, tile.kernels.rows, column);
      target != nullptr) {
    Multiply(tile, *tile.in_place, packed_block, target);
    CurrentTileKernels().finish({.values = target,
                                 .stride = call.outputs.front().view.row_stride,
                                 .rows = tile.kernels.rows,
                                 .bias = Bias(packed_block),
                                 .activation = call.activation});
    return;
  }
  alignas(64) std::array<float, 2 * kTileElements> product;
  float* factors = format_.is_gated ? product.data() + kTileElements : nullptr;
  Multiply(tile, tile.kernels, packed_block, product.data());
  if (format_.is_gated) {
    Multiply(tile, tile.kernels, packed_block + 1, factors);
  }
  FinishTile finish{.values = product.data(),
                    .rows = tile.kernels.rows,
                    .bias = Bias(packed_block),
                    .activation = call.activation,
                    .factors = factors,
                    .factor_bias = format_.is_gated ? Bias(packed_block + 1) : nullptr};
  if (call.residual.has_value()) {
    const MatrixView& residual = *call.residual;
    finish.residual =
        static_cast<const float*>(residual.data) + tile.first_row * residual.row_stride + column;
    finish.residual_stride = residual.row_stride;
    finish.cols = residual.cols - column;
  }
  CurrentTileKernels().finish(finish);
  Store(call, tile, column, product.data());
}

void PackedLinear::Store(const Call& call, const Tile& tile, int64_t column,
                         const float* product) const {
  const int64_t end_row = tile.first_row + tile.kernels.rows;
  const OutputRows* output = OutputOf(call, tile.first_row);
  for (int64_t row = tile.first_row; row < end_row; ++output) {
    const MutableMatrixView& view = output->view;
    const int64_t row_of_view = row - output->first_row;
    const int64_t rows = std::min(view.rows - row_of_view, end_row - row);
    if (rows > 0 && column < view.cols) {
      CurrentTileKernels().store(
          {.source = product + (row - tile.first_row) * kColumnBlock,
           .source_stride = kColumnBlock,
           .rows = rows,
           .cols = std::min(kColumnBlock, view.cols - column),
           .target = ElementAt(view.data, view.dtype, row_of_view * view.row_stride + column),
           .target_dtype = view.dtype,
           .target_stride = view.row_stride});
    }
    row += std::max<int64_t>(rows, 0);
  }
}

}  // namespace attention
