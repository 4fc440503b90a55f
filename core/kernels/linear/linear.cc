#include "core/kernels/linear/linear.h"

#include <algorithm>
#include <array>

#include "core/kernels/linear/pack_weights.h"
#include "core/kernels/onednn/isa.h"
#include "core/kernels/tile/tile_kernels.h"
#include "core/runtime/round_up.h"

namespace attention {
namespace {

constexpr BufferName kQuantised{"quantised rows"};

constexpr int64_t kRowTile = 64;
constexpr int64_t kTileElements = kRowTile * kColumnBlock;

/// The number of input features in one chain. Short chains round less, which matters for f32. The
/// rounding of bf16 operands exceeds that of any chain, and integers are exact: there the chain is
/// as long as the L2 cache allows.
constexpr int64_t kDepthChainF32 = 256;
constexpr int64_t kDepthChain = 1024;

/// A matrix unit reads the operands of many rows fast enough from the L1 cache only. It adds up
/// tiles of kTileDepth features, so that the length of a chain of whole tiles changes no bit.
constexpr int64_t kDepthChainMatrixUnit = 384;
constexpr int64_t kTileDepth = 32;
constexpr int64_t kManyRows = 32;

/// Returns the length of the chains of products that are not of f32.
int64_t ChainOf(bool int8, int64_t depth, int64_t rows) {
  return HasMatrixUnit() && !int8 && depth % kTileDepth == 0 && rows > kManyRows
             ? kDepthChainMatrixUnit
             : kDepthChain;
}

/// The number of products that a thread computes one after the other: a matrix unit is configured
/// once for all of them. Each thread has at least kLeastTasks tasks, so that all end at
/// about the same time.
constexpr int64_t kMostTogether = 8;
constexpr int64_t kLeastTasks = 32;

/// The number of rows up to which bf16 weights are widened to f32 by the few-row products that read
/// them. For more rows it is faster to widen a block once, before its products.
constexpr int64_t kWideningRows = 2 * kFewRows;

/// Rows rounded to 8 bits, with a scale for each row.
struct QuantisedInput {
  uint8_t* values = nullptr;  // [rows, Int8Depth(in_features)]
  float* scales = nullptr;    // [rows]
};

QuantisedInput Quantise(const MatrixView& input, Workspace& workspace) {
  const int64_t width = Int8Depth(input.cols);
  const int64_t scales_at = RoundUp(input.rows * width, 64);
  std::byte* buffer = workspace.Buffer(kQuantised, scales_at + input.rows * sizeof(float));
  const QuantisedInput quantised{reinterpret_cast<uint8_t*>(buffer),
                                 reinterpret_cast<float*>(buffer + scales_at)};
  constexpr int64_t kRows = 16;
  workspace.pool().ParallelFor((input.rows + kRows - 1) / kRows, [&](int64_t i, int /*worker*/) {
    const int64_t first = i * kRows;
    CurrentTileKernels().quantise_rows(
        {ElementAt(input.data, input.dtype, first * input.row_stride), input.dtype,
         input.row_stride, std::min(kRows, input.rows - first), input.cols},
        {quantised.values + first * width, width, quantised.scales + first});
  });
  return quantised;
}

}  // namespace

Dtype RowsDtype(WeightsDtype dtype, bool has_even_widths) {
  return dtype == WeightsDtype::kBf16 && has_even_widths ? ComputeDtype(Dtype::kBf16) : Dtype::kF32;
}

/// The products of one tile height: the first chain of K overwrites, later ones accumulate.
struct PackedLinear::Kernels {
  int64_t rows = 0;
  int64_t depth = 0;
  int64_t chain = 0;
  int64_t columns = kColumnBlock;  // of one product
  bool widens_before = false;      // bf16 weights become f32 panels before the products
  const Gemm* first = nullptr;
  const Gemm* next = nullptr;  // null when K is one chain
  const Gemm* last = nullptr;  // a shorter last chain; null when there is none
};

/// Rows [first_row, first_row + kernels.rows) of a call.
struct PackedLinear::Tile {
  const Kernels& kernels;
  const Kernels* in_place = nullptr;  // those that may write to the result, or null
  int64_t first_row = 0;
  const void* rows = nullptr;  // of the operand type
  const float* scales = nullptr;
  float* widened = nullptr;  // with kernels.widens_before: the f32 weights of the block
  // The part of the next block of weights that the tile prefetches for Widen: each product
  // `prefetch_bytes`, from byte `first_prefetch` of the block on.
  int64_t first_prefetch = 0;
  int64_t prefetch_bytes = 0;
};

const float* PackedLinear::Bias(int64_t block) const {
  return reinterpret_cast<const float*>(bias_.data()) + block * kColumnBlock;
}

namespace {

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

/// Returns the row stride of the result if products can be computed there: f32 rows whose earlier
/// contents nobody needs. Otherwise 0.
int64_t PackedLinear::StrideInPlace(const Call& call) const {
  if (is_int8() || format_.is_gated || call.residual.has_value()) {
    return 0;
  }
  const int64_t stride = call.outputs.front().view.row_stride;
  const bool fits = std::all_of(call.outputs.begin(), call.outputs.end(), [&](const OutputRows& o) {
    return o.view.dtype == Dtype::kF32 && o.view.row_stride == stride;
  });
  return fits && stride >= kColumnBlock ? stride : 0;
}

PackedLinear::Kernels PackedLinear::FindKernels(int64_t rows, int64_t row_stride,
                                                int64_t product_stride) const {
  const bool is_f32 = !is_int8() && format_.compute == Dtype::kF32;
  Kernels kernels{.rows = rows,
                  .depth = is_int8() ? Int8Depth(in_features_) : in_features_,
                  .chain = is_f32 ? kDepthChainF32 : ChainOf(is_int8(), in_features_, rows),
                  .widens_before = widens() && rows > kWideningRows};
  if (packing_ == Packing::kF32 || kernels.widens_before) {
    kernels.columns = PanelColumns();
  }
  GemmShape shape{.m = rows,
                  .n = kernels.columns,
                  .k = std::min(kernels.depth, kernels.chain),
                  .lda = is_int8() ? kernels.depth : row_stride,
                  .ldb = kernels.columns,
                  .ldc = product_stride,
                  .dtype = is_int8() ? Dtype::kF32 : format_.compute,
                  .int8 = is_int8(),
                  .bf16_b = widens() && !kernels.widens_before};
  kernels.first = &FindGemm(shape);
  shape.accumulate = true;
  if (kernels.depth >= 2 * kernels.chain) {
    kernels.next = &FindGemm(shape);
  }
  if (kernels.depth > kernels.chain && kernels.depth % kernels.chain != 0) {
    shape.k = kernels.depth % kernels.chain;
    kernels.last = &FindGemm(shape);
  }
  return kernels;
}

void PackedLinear::Multiply(const Tile& tile, const Kernels& kernels, int64_t block,
                            float* product) const {
  const int64_t element_bytes = is_int8() ? 1 : static_cast<int64_t>(SizeOf(format_.compute));
  const auto* rows = static_cast<const std::byte*>(tile.rows);
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
      gemm->Run(rows + depth * element_bytes, weights, product + column);
    }
  }
  if (is_int8()) {
    const float* scales = Int8Scales(Block(block), in_features_);
    CurrentTileKernels().dequantise_scores({.scores = product,
                                            .stride = kColumnBlock,
                                            .rows = kernels.rows,
                                            .cols = kColumnBlock,
                                            .query_scales = tile.scales,
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

void PackedLinear::RunTile(const Call& call, const Tile& tile, int64_t block) const {
  const int64_t packed_block = format_.is_gated ? 2 * block : block;
  const int64_t column = block * kColumnBlock - columns_[call.first_part];
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

void PackedLinear::Run(const Call& call, Workspace& workspace) const {
  const int64_t rows = call.input.rows;
  if (rows == 0) {
    return;
  }
  QuantisedInput quantised;
  if (is_int8()) {
    quantised = Quantise(call.input, workspace);
  }
  const KernelLease lease;
  const int64_t row_tiles = RoundUp(rows, kRowTile) / kRowTile;
  const int64_t tail_rows = rows - (row_tiles - 1) * kRowTile;
  const Kernels tail = FindKernels(tail_rows, call.input.row_stride, kColumnBlock);
  const Kernels whole =
      row_tiles > 1 ? FindKernels(kRowTile, call.input.row_stride, kColumnBlock) : tail;
  const int64_t stride_in_place = rows < kRowTile ? 0 : StrideInPlace(call);
  const Kernels in_place = stride_in_place == 0
                               ? Kernels()
                               : FindKernels(kRowTile, call.input.row_stride, stride_in_place);
  const int64_t first_block = columns_[call.first_part] / kColumnBlock;
  const int64_t blocks = columns_[call.end_part] / kColumnBlock - first_block;
  const int64_t widened_count = (format_.is_gated ? 2 : 1) * in_features_ * kColumnBlock;
  // The input is read again for every block, or the weights for every row tile: the smaller of
  // them, which the cache holds.
  const bool goes_by_rows = row_tiles > blocks && !whole.widens_before;
  const auto run_tile = [&](int64_t i, bool is_first, int worker) {
    const int64_t row_tile = goes_by_rows ? i / blocks : i % row_tiles;
    Tile tile{.kernels = row_tile + 1 == row_tiles ? tail : whole,
              .first_row = row_tile * kRowTile};
    if (stride_in_place > 0 && tile.kernels.rows == kRowTile) {
      tile.in_place = &in_place;
    }
    if (is_int8()) {
      tile.rows = quantised.values + tile.first_row * Int8Depth(in_features_);
      tile.scales = quantised.scales + tile.first_row;
    } else {
      tile.rows =
          ElementAt(call.input.data, format_.compute, tile.first_row * call.input.row_stride);
    }
    const int64_t block = first_block + (goes_by_rows ? i % blocks : i / row_tiles);
    if (tile.kernels.widens_before) {
      tile.widened =
          reinterpret_cast<float*>(workspace.Scratch(worker, widened_count * sizeof(float)));
      if (is_first || row_tile == 0) {
        Widen(block, tile.widened);
      }
      const int64_t products = kColumnBlock / tile.kernels.columns *
                               ((in_features_ + tile.kernels.chain - 1) / tile.kernels.chain);
      tile.prefetch_bytes = static_cast<int64_t>(BlockBytes()) / (row_tiles * products);
      tile.first_prefetch = row_tile * products * tile.prefetch_bytes;
    }
    RunTile(call, tile, block);
  };
  const int64_t tiles = blocks * row_tiles;
  const int64_t together =
      std::clamp<int64_t>(tiles / (kLeastTasks * workspace.pool().num_threads()), 1, kMostTogether);
  workspace.pool().ParallelFor((tiles + together - 1) / together, [&](int64_t i, int worker) {
    const KernelRun run;
    for (int64_t k = i * together; k < std::min(tiles, (i + 1) * together); ++k) {
      run_tile(k, k == i * together, worker);
    }
  });
}

}  // namespace attention
