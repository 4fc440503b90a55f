// The vector code around the matrix products: softmax of a tile, packing, conversion. Compiled once
// for each instruction set.
#pragma once

#include <cstdint>

#include "core/kernels/tile/similarity.h"
#include "core/tensor/dtype.h"

namespace attention {

/// Keys are packed, scored and summed in blocks of this many.
inline constexpr int64_t kKeyBlock = 64;

constexpr int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// One step of online softmax: a tile of scores [rows, cols] becomes probabilities relative to each
/// row's running maximum, and what was accumulated for earlier tiles is rescaled to it.
struct SoftmaxTile {
  float* scores = nullptr;  // [rows, cols], row stride `stride`; becomes the probabilities unless
                            // bf16_probabilities
  int64_t stride = 0;
  int64_t rows = 0;
  int64_t cols = 0;  // a multiple of 16
  const int64_t* visible_end =
      nullptr;            // [rows]: columns from visible_end on are hidden and get probability 0
  bool hides = false;     // scores of -infinity are hidden too
  float scale_log2e = 0;  // >= 0: scale of the logits, times log2(e)
  float* row_max =
      nullptr;  // [rows], running maximum of raw scores; -infinity before the first tile
  float* row_sum = nullptr;                // [rows], running sum of probabilities
  float* accumulator = nullptr;            // [rows, accumulator_cols], dense
  int64_t accumulator_cols = 0;            // a multiple of 16
  bool is_first = false;                   // the accumulator holds nothing yet
  uint16_t* bf16_probabilities = nullptr;  // [rows, cols], row stride `stride`, or null
};

/// What follows a linear map.
enum class Activation {
  kNone,
  kRelu,
  kGelu,      // x Phi(x) (Hendrycks & Gimpel 2016)
  kGeluTanh,  // their approximation by tanh
  kSilu,      // x / (1 + exp(-x))
};

/// A [rows, 64] tile of a product on its way to the result, in place:
/// activation(values + bias) * (factors + factor_bias) + residual.
struct FinishTile {
  float* values = nullptr;  // dense
  int64_t rows = 0;
  const float* bias = nullptr;  // [64]
  Activation activation = Activation::kNone;
  const float* factors = nullptr;      // dense [rows, 64], or null: 1
  const float* factor_bias = nullptr;  // [64]
  const float* residual = nullptr;     // [rows, cols], or null: 0
  int64_t residual_stride = 0;
  int64_t cols = 0;  // of the residual
};

/// Rows of hidden states to be normalised: (x - mean) / sqrt(variance + epsilon) * weight + bias
/// (Ba et al. 2016), or x / sqrt(mean(x^2) + epsilon) * weight with `is_rms`.
struct NormTile {
  const float* source = nullptr;
  int64_t source_stride = 0;
  int64_t rows = 0;
  int64_t cols = 0;
  bool is_rms = false;
  float epsilon = 0;
  const float* weight = nullptr;    // [cols]
  const float* bias = nullptr;      // [cols], or null
  const float* residual = nullptr;  // [rows, cols] added to the result, or null
  int64_t residual_stride = 0;
  void* target = nullptr;  // may be the source, where its dtype is f32
  Dtype target_dtype = Dtype::kF32;
  int64_t target_stride = 0;
};

/// A [rows, cols] f32 tile to be written elsewhere as another dtype.
struct StoreTile {
  const float* source = nullptr;
  int64_t source_stride = 0;
  int64_t rows = 0;
  int64_t cols = 0;
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

/// What a row's raw scores go through to become logits.
struct LogitRow {
  float alibi_slope = 0;
  float first_distance = 0;     // p - j of the row and column 0
  const float* bias = nullptr;  // of column 0, or null
};

/// scores[rows, cols] = softcap(scale * scores) - slope * |p - j| + bias, in place.
struct LogitTile {
  float* scores = nullptr;
  int64_t stride = 0;
  int64_t rows = 0;
  int64_t cols = 0;  // of the bias; scores are padded to a multiple of 16
  float scale = 1;
  float softcap = 0;                // 0: none
  const LogitRow* terms = nullptr;  // [rows]
};

/// scores[rows, 64] of kernel regression, by differences in double precision: kGaussian -|query -
/// key|^2; kBox and kTriangular the weights themselves, since 1 - |q - k| / bandwidth cancels near
/// its edge.
struct DistanceTile {
  Similarity similarity = Similarity::kGaussian;
  double bandwidth = 0;
  const float* query = nullptr;  // [rows, depth]
  int64_t rows = 0;
  int64_t depth = 0;
  const float* keys = nullptr;  // a packed block, [depth][kKeyBlock]
  float* scores = nullptr;
  int64_t stride = 0;
};

/// Adds up weights that are not softmax's. Hidden ones (-infinity, or from visible_end on) become
/// 0.
struct WeightTile {
  float* scores = nullptr;  // [rows, cols]
  int64_t stride = 0;
  int64_t rows = 0;
  int64_t cols = 0;  // a multiple of 16
  const int64_t* visible_end = nullptr;
  float* row_sum = nullptr;
};

/// Query or key rows of one head on their way to a product.
struct RowPreparation {
  PackSource source;
  bool has_norm = false;
  const float* norm_weight = nullptr;  // [cols] or null: ones
  float norm_epsilon = 0;
  int64_t rotary_dim = 0;  // 0: none
  bool interleaved = false;
  const float* rotations = nullptr;  // [rows, rotary_dim]: cosines of the pairs, then sines
  bool has_feature_map = false;      // elu(x) + 1
};

/// Rows of 8-bit integers: x = scale * (q - 128).
struct QuantisedRows {
  uint8_t* values = nullptr;  // [rows, width], the excess over `cols` is 128
  int64_t width = 0;
  float* scales = nullptr;  // [rows]
};

/// Products of quantised rows with quantised keys, made floats in place:
/// scores = (product - key_offsets[j]) * query_scales[r] * key_scales[j].
struct DequantisedScores {
  float* scores = nullptr;  // holds int32 products
  int64_t stride = 0;
  int64_t rows = 0;
  int64_t cols = 0;                     // a multiple of 16
  const float* query_scales = nullptr;  // [rows]
  const float* key_scales = nullptr;    // [cols]
  const float* key_offsets = nullptr;   // [cols]: 128 * sum of the key's integers
};

/// Probabilities, which are multiplied by value_scales[j], as 8-bit integers of one scale for each
/// row.
struct QuantisedProbabilities {
  float* probabilities = nullptr;
  int64_t stride = 0;  // of both, in elements
  int64_t rows = 0;
  int64_t cols = 0;                     // a multiple of 16
  const float* value_scales = nullptr;  // [cols]
  uint8_t* target = nullptr;
  float* row_scales = nullptr;  // [rows]
};

/// target[rows, cols] += row_scales[r] * sums; dense.
struct ScaledSums {
  const int32_t* sums = nullptr;
  const float* row_scales = nullptr;  // [rows]
  int64_t rows = 0;
  int64_t cols = 0;
  float* target = nullptr;
};

/// Packed memory of another type, made f32 [rows, cols]: bf16 [rows / 2][cols][2], or int8 [rows /
/// 4][cols][4] times the scales.
struct ExpandTile {
  const void* source = nullptr;
  const float* row_scales = nullptr;     // [rows], or null
  const float* column_scales = nullptr;  // [cols], or null
  bool int8 = false;
  int64_t rows = 0;
  int64_t cols = 0;
  float* target = nullptr;
};

inline constexpr int64_t kMostStreamedRows = 8;

/// c[rows, cols] (+)= a[rows, k] b[k, cols] for few rows; b packed as for the brgemm ukernels, a
/// group of 32 bits along k being one step. Strides in bytes.
struct StreamProduct {
  /// kF32Bf16: a f32, b bf16; kInt8: a u8, b s8, c int32. c is f32 otherwise. kBf16Matrix: bf16,
  /// with the bits of a matrix unit.
  enum Operands { kF32, kF32Bf16, kBf16, kBf16Matrix, kInt8 };

  Operands operands = kF32;
  const void* a = nullptr;
  int64_t a_stride = 0;
  int64_t rows = 0;  // <= kMostStreamedRows
  const void* b = nullptr;
  int64_t b_stride = 0;
  int64_t steps = 0;  // <= 256
  int64_t cols = 0;   // a multiple of 16, <= 512
  /// Of kBf16Matrix: steps that the matrix unit multiplies at once, a divisor of `steps`.
  int64_t tile_steps = 1;
  void* c = nullptr;
  int64_t c_stride = 0;
  bool accumulate = false;
};

/// Function table of one instruction set. Where a table works on bf16 operands (`compute` ==
/// kBf16), sources are bf16; where it works on f32, sources are any dtype.
struct TileKernels {
  void (*softmax)(const SoftmaxTile& tile);
  void (*logits)(const LogitTile& tile);
  void (*distances)(const DistanceTile& tile);
  void (*weights)(const WeightTile& tile);
  void (*store)(const StoreTile& tile);
  void (*finish)(const FinishTile& tile);
  void (*norm)(const NormTile& tile);
  /// Null below AVX2. kBf16 needs AVX512_CORE_BF16.
  void (*stream)(const StreamProduct& product);
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
  /// Norm, then rotation, then feature map, in f32; dense rows of `target_dtype`.
  void (*prepare_rows)(const RowPreparation& rows, Dtype target_dtype, void* target);

  void (*expand)(const ExpandTile& tile);
  void (*quantise_rows)(const PackSource& source, const QuantisedRows& target);
  void (*dequantise_scores)(const DequantisedScores& tile);
  void (*quantise_probabilities)(const QuantisedProbabilities& tile);
  void (*add_scaled)(const ScaledSums& tile);
};

/// The table of CurrentIsa().
const TileKernels& CurrentTileKernels();

}  // namespace attention
