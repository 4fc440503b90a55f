#include "core/kernels/linear.h"

#include <algorithm>
#include <array>

#include "core/kernels/attention_plan.h"
#include "core/kernels/tile/tile_kernels.h"

namespace attention {
namespace {

constexpr int64_t kRowTile = 64;
/// K is cut at multiples of this. Short chains of additions round less, which f32 needs; bf16
/// operands round far more than any chain, so there it is only a matter of the L2 cache.
int64_t DepthChunk(Dtype compute) { return compute == Dtype::kF32 ? 256 : 1024; }

void Round(Dtype dtype, float* values, int64_t count) {
  if (dtype == Dtype::kF32) {
    return;
  }
  std::vector<uint16_t> rounded(count);
  Convert(Dtype::kF32, values, dtype, rounded.data(), count);
  Convert(dtype, rounded.data(), Dtype::kF32, values, count);
}

}  // namespace

/// The products of one tile height: the first chunk of K overwrites, later ones accumulate.
struct PackedLinear::Kernels {
  int64_t rows = 0;
  const Gemm* first = nullptr;
  const Gemm* next = nullptr;  // null when K is one chunk
  const Gemm* last = nullptr;  // a shorter last chunk; null when there is none
};

PackedLinear::PackedLinear(int64_t in_features, std::span<const Part> parts, Dtype dtype,
                           Dtype compute)
    : in_features_(in_features), compute_(compute), columns_{0} {
  for (const Part& part : parts) {
    columns_.push_back(columns_.back() + RoundUp(part.out_features, kColumnBlock));
  }
  num_blocks_ = columns_.back() / kColumnBlock;
  packed_ = AlignedBuffer(num_columns() * in_features_ * SizeOf(compute_));
  bias_ = AlignedBuffer(num_columns() * sizeof(float));
  auto* bias = reinterpret_cast<float*>(bias_.data());
  std::fill_n(bias, num_columns(), 0.0f);
  for (int64_t i = 0; i < std::ssize(parts); ++i) {
    const int64_t first_block = columns_[i] / kColumnBlock;
    for (int64_t block = 0; block * kColumnBlock < parts[i].out_features; ++block) {
      PackBlock(parts[i], block, first_block + block, dtype);
    }
    if (parts[i].bias != nullptr) {
      std::copy_n(parts[i].bias, parts[i].out_features, bias + columns_[i]);
    }
  }
  Round(dtype, bias, num_columns());
}

void PackedLinear::PackBlock(const Part& part, int64_t block_of_part, int64_t block, Dtype dtype) {
  const int64_t first_row = block_of_part * kColumnBlock;
  const int64_t rows = std::min(kColumnBlock, part.out_features - first_row);
  const float* weights = part.weights + first_row * in_features_;
  void* target = ElementAt(packed_.data(), compute_, block * in_features_ * kColumnBlock);
  if (dtype == Dtype::kF32) {
    CurrentTileKernels().pack_transposed({weights, Dtype::kF32, in_features_, rows, in_features_},
                                         compute_, in_features_, target);
    return;
  }
  std::vector<uint16_t> rounded(rows * in_features_);
  Convert(Dtype::kF32, weights, dtype, rounded.data(), std::ssize(rounded));
  CurrentTileKernels().pack_transposed({rounded.data(), dtype, in_features_, rows, in_features_},
                                       compute_, in_features_, target);
}

PackedLinear::Kernels PackedLinear::FindKernels(int64_t rows, int64_t row_stride) const {
  const int64_t chunk = DepthChunk(compute_);
  GemmShape shape{.m = rows,
                  .n = kColumnBlock,
                  .k = std::min(in_features_, chunk),
                  .lda = row_stride,
                  .ldb = kColumnBlock,
                  .ldc = kColumnBlock,
                  .dtype = compute_};
  Kernels kernels{rows, &FindGemm(shape), nullptr, nullptr};
  shape.accumulate = true;
  if (in_features_ >= 2 * chunk) {
    kernels.next = &FindGemm(shape);
  }
  if (in_features_ > chunk && in_features_ % chunk != 0) {
    shape.k = in_features_ % chunk;
    kernels.last = &FindGemm(shape);
  }
  return kernels;
}

void PackedLinear::RunTile(const Call& call, const Kernels& kernels, int64_t first_row,
                           int64_t block) const {
  alignas(64) std::array<float, kRowTile * kColumnBlock> product;
  const int64_t chunk = DepthChunk(compute_);
  for (int64_t depth = 0; depth < in_features_; depth += chunk) {
    const Gemm* gemm = depth == 0                      ? kernels.first
                       : depth + chunk <= in_features_ ? kernels.next
                                                       : kernels.last;
    gemm->Run(ElementAt(call.input.data, compute_, first_row * call.input.row_stride + depth),
              ElementAt(packed_.data(), compute_, (block * in_features_ + depth) * kColumnBlock),
              product.data());
  }
  const int64_t column = block * kColumnBlock - columns_[call.first_part];
  const auto* bias = reinterpret_cast<const float*>(bias_.data()) + block * kColumnBlock;
  auto segment =
      std::upper_bound(call.outputs.begin(), call.outputs.end(), first_row,
                       [](int64_t row, const RowSegment& s) { return row < s.first_row; });
  --segment;
  for (int64_t row = first_row; row < first_row + kernels.rows; ++segment) {
    const MutableMatrixView& view = segment->view;
    const int64_t row_of_view = row - segment->first_row;
    const int64_t rows = std::min(view.rows - row_of_view, first_row + kernels.rows - row);
    if (rows > 0 && column < view.cols) {
      CurrentTileKernels().store(
          {.source = product.data() + (row - first_row) * kColumnBlock,
           .source_stride = kColumnBlock,
           .rows = rows,
           .cols = std::min(kColumnBlock, view.cols - column),
           .bias = bias,
           .target = ElementAt(view.data, view.dtype, row_of_view * view.row_stride + column),
           .target_dtype = view.dtype,
           .target_stride = view.row_stride});
    }
    row += std::max<int64_t>(rows, 0);
  }
}

void PackedLinear::Run(const Call& call, ThreadPool& pool) const {
  const int64_t rows = call.input.rows;
  if (rows == 0) {
    return;
  }
  const int64_t row_tiles = RoundUp(rows, kRowTile) / kRowTile;
  const int64_t tail_rows = rows - (row_tiles - 1) * kRowTile;
  const Kernels tail = FindKernels(tail_rows, call.input.row_stride);
  const Kernels whole = row_tiles > 1 ? FindKernels(kRowTile, call.input.row_stride) : tail;
  const int64_t first_block = columns_[call.first_part] / kColumnBlock;
  const int64_t blocks = columns_[call.end_part] / kColumnBlock - first_block;
  pool.ParallelFor(blocks * row_tiles, [&](int64_t i, int /*worker*/) {
    const int64_t row_tile = i % row_tiles;
    RunTile(call, row_tile + 1 == row_tiles ? tail : whole, row_tile * kRowTile,
            first_block + i / row_tiles);
  });
}

}  // namespace attention
