#include "core/kernels/linear/linear.h"

#include <algorithm>

#include "core/kernels/linear/linear_tile.h"
#include "core/kernels/linear/pack_weights.h"
#include "core/kernels/onednn/isa.h"
#include "core/kernels/tile/tile_kernels.h"
#include "core/runtime/round_up.h"
#include "core/tensor/row_blocks.h"

namespace attention {
namespace {

constexpr BufferName kQuantised{"quantised rows"};

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

/// Returns the number of rows up to which bf16 weights are widened to f32 by the few-row products
/// that read them. For more rows it is faster to widen a block once, before its products.
int64_t WideningRows() {
  const Abilities& abilities = CurrentAbilities();
  if (abilities.vector_bits == 512) {
    return (abilities.processor.is_intel ? 2 : 4) * kFewRows;
  }
  return 3 * kFewRows;
}

/// Weights of more bytes come from memory, not from a cache, when they are read again.
constexpr size_t kCachedBytes = size_t{16} << 20;

/// The most row tiles of a stripe. The caches hold the input of 512 rows, which is read again for
/// each block. Each stripe reads the weights again, or widens them: for fewer rows that costs more.
constexpr int64_t kStripeTiles = 8;

}  // namespace

Dtype RowsDtype(WeightsDtype dtype, bool has_even_widths) {
  return dtype == WeightsDtype::kBf16 && has_even_widths ? ComputeDtype(Dtype::kBf16) : Dtype::kF32;
}

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
                  .widens_before = widens() && rows > WideningRows()};
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
                  .bf16_b = widens() && !kernels.widens_before,
                  .reads_memory = num_blocks() * BlockBytes() > kCachedBytes};
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

/// Returns the input in the type of the product: 8-bit weights are multiplied with 8-bit rows.
PackedLinear::Operand PackedLinear::Prepare(const MatrixView& input, Workspace& workspace) const {
  if (!is_int8()) {
    return {static_cast<const std::byte*>(input.data),
            input.row_stride * static_cast<int64_t>(SizeOf(format_.compute))};
  }
  const int64_t width = Int8Depth(input.cols);
  const int64_t scales_at = RoundUp(input.rows * width, 64);
  std::byte* buffer = workspace.Buffer(kQuantised, scales_at + input.rows * sizeof(float));
  auto* values = reinterpret_cast<uint8_t*>(buffer);
  auto* scales = reinterpret_cast<float*>(buffer + scales_at);
  ForRowBlocks(input.rows, workspace.pool(), [&](int64_t first, int64_t count) {
    CurrentTileKernels().quantise_rows(
        {ElementAt(input.data, input.dtype, first * input.row_stride), input.dtype,
         input.row_stride, count, input.cols},
        {values + first * width, width, scales + first});
  });
  return {buffer, width, scales};
}

PackedLinear::Division PackedLinear::Divide(const Call& call) const {
  const int64_t rows = call.input.rows;
  const int64_t row_stride = call.input.row_stride;
  Division division{.row_tiles = CeilDiv(rows, kRowTile),
                    .first_block = columns_[call.first_part] / kColumnBlock};
  division.blocks = columns_[call.end_part] / kColumnBlock - division.first_block;
  const int64_t last_rows = rows - (division.row_tiles - 1) * kRowTile;
  division.last = FindKernels(last_rows, row_stride, kColumnBlock);
  division.whole =
      division.row_tiles > 1 ? FindKernels(kRowTile, row_stride, kColumnBlock) : division.last;
  if (const int64_t stride = rows < kRowTile ? 0 : StrideInPlace(call); stride > 0) {
    division.in_place = FindKernels(kRowTile, row_stride, stride);
  }
  // All stripes are of nearly the same size.
  const int64_t stripes = CeilDiv(division.row_tiles, kStripeTiles);
  division.stripe_tiles = CeilDiv(division.row_tiles, stripes);
  return division;
}

PackedLinear::Tile PackedLinear::TileAt(int64_t i, const Division& division,
                                        const Operand& input) const {
  const Division::Coordinates at = division.CoordinatesOf(i);
  Tile tile{.kernels = at.row_tile + 1 == division.row_tiles ? division.last : division.whole,
            .first_row = at.row_tile * kRowTile,
            .block = at.block,
            .is_first_of_stripe = at.row_tile == at.first_of_stripe};
  tile.input = {.rows = input.rows + tile.first_row * input.row_bytes,
                .row_bytes = input.row_bytes,
                .scales = input.scales == nullptr ? nullptr : input.scales + tile.first_row};
  if (tile.kernels.rows == division.in_place.rows) {
    tile.in_place = &division.in_place;
  }
  if (tile.kernels.widens_before) {
    const int64_t products =
        kColumnBlock / tile.kernels.columns * CeilDiv(in_features_, tile.kernels.chain);
    tile.prefetch_bytes = static_cast<int64_t>(BlockBytes()) / (at.stripe_tiles * products);
    tile.first_prefetch = (at.row_tile - at.first_of_stripe) * products * tile.prefetch_bytes;
  }
  return tile;
}

void PackedLinear::Run(const Call& call, Workspace& workspace) const {
  if (call.input.rows == 0) {
    return;
  }
  const Operand input = Prepare(call.input, workspace);
  const KernelLease lease;
  const Division division = Divide(call);
  const int64_t widened_count = (format_.is_gated ? 2 : 1) * in_features_ * kColumnBlock;
  const int64_t tiles = division.tiles();
  const int64_t together =
      std::clamp<int64_t>(tiles / (kLeastTasks * workspace.pool().num_threads()), 1, kMostTogether);
  workspace.pool().ParallelFor(CeilDiv(tiles, together), [&](int64_t task, int worker) {
    const KernelRun run;
    const int64_t first = task * together;
    float* widened = nullptr;  // kept from tile to tile
    for (int64_t i = first; i < std::min(tiles, first + together); ++i) {
      Tile tile = TileAt(i, division, input);
      if (tile.kernels.widens_before) {
        const bool is_new = widened == nullptr || tile.is_first_of_stripe;
        if (widened == nullptr) {
          widened =
              reinterpret_cast<float*>(workspace.Scratch(worker, widened_count * sizeof(float)));
        }
        tile.widened = widened;
        if (is_new) {
          Widen(tile.block, widened);
        }
      }
      RunTile(call, tile);
    }
  });
}

}  // namespace attention
