// The vector code around the matrix products: softmax of a tile, packing, conversion. Compiled once
// for each instruction set.
#pragma once

#include <cstdint>

#include "core/tensor/dtype.h"

namespace attention {

/// Keys are packed, scored and summed in blocks of this many.
inline constexpr int64_t kKeyBlock = 64;

/// One step of online softmax: a tile of scores [rows, cols] becomes probabilities relative to each
/// row's running maximum, and what was accumulated for earlier tiles is rescaled to it.
struct SoftmaxTile {
  float* scores = nullptr;  // [rows, cols], row stride `stride`; becomes the probabilities unless
                            // bf16_probabilities
  int64_t stride = 0;
  int64_t rows = 0;
  int64_t cols = 0;  // a multiple of 16
  const int64_t* visible_end =
      nullptr;            // [rows]: columns [0, visible_end) are seen; the others get probability 0
  float scale_log2e = 0;  // >= 0: scale of the logits, times log2(e)
  float* row_max =
      nullptr;  // [rows], running maximum of raw scores; -infinity before the first tile
  float* row_sum = nullptr;                // [rows], running sum of probabilities
  float* accumulator = nullptr;            // [rows, accumulator_cols], dense
  int64_t accumulator_cols = 0;            // a multiple of 16
  bool is_first = false;                   // the accumulator holds nothing yet
  uint16_t* bf16_probabilities = nullptr;  // [rows, cols], row stride `stride`, or null
};

/// A [rows, cols] f32 tile to be written elsewhere as another dtype.
struct StoreTile {
  const float* source = nullptr;
  int64_t source_stride = 0;
  int64_t rows = 0;
  int64_t cols = 0;
  const float* bias = nullptr;  // [cols] added to each row, or null
  const float* row_sum =
      nullptr;  // [rows]: each row is divided by it, a row with 0 becomes zeros; or null
  void* target = nullptr;
  Dtype target_dtype = Dtype::kF32;
  int64_t target_stride = 0;
};

/// A [rows, cols] part of a strided tensor to be packed for a product.
struct PackSource {
  const void* data = nullptr;
  Dtype dtype = Dtype::kF32;
  int64_t stride = 0;
  int64_t rows = 0;
  int64_t cols = 0;
};

/// Function table of one instruction set. Where a table works on bf16 operands (`compute` ==
/// kBf16), sources are bf16; where it works on f32, sources are any dtype.
struct TileKernels {
  void (*softmax)(const SoftmaxTile& tile);
  /// In place: row[0, visible) = softmax(scale * row), row[visible, count) = 0. scale_log2e as in
  /// SoftmaxTile.
  void (*softmax_row)(float* row, int64_t visible, int64_t count, float scale_log2e);
  void (*store)(const StoreTile& tile);
  /// Up to kKeyBlock rows, transposed: f32 [depth][kKeyBlock], bf16 [depth / 2][kKeyBlock][2];
  /// depth >= cols, the rest zero. Rows not given are zero.
  void (*pack_transposed)(const PackSource& source, Dtype compute, int64_t depth, void* target);
  /// Up to kKeyBlock rows as kKeyBlock packed ones: f32 [kKeyBlock][width], bf16 [kKeyBlock /
  /// 2][width][2]; what is not given is zero. Returns whether every value is finite.
  bool (*pack_rows)(const PackSource& source, Dtype compute, int64_t width, void* target);
  /// Rows of `compute` elements, `width` >= cols apart, the rest zero; values negated with
  /// `negate`.
  void (*copy_rows)(const PackSource& source, Dtype compute, int64_t width, bool negate,
                    void* target);
};

/// The table of CurrentIsa().
const TileKernels& CurrentTileKernels();

}  // namespace attention
