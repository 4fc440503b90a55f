// The vector code around the matrix products: softmax of a tile, packing, conversion. It is
// compiled once for each instruction set. Strides count elements, unless a comment says bytes.
// Nothing here allocates memory or fails, and all of it is thread-safe.
#pragma once

#include <cstdint>

#include "core/kernels/onednn/isa.h"
#include "core/kernels/tile/activation.h"
#include "core/kernels/tile/key_block.h"
#include "core/kernels/tile/prefetch.h"
#include "core/kernels/tile/similarity.h"
#include "core/tensor/dtype.h"

namespace attention {

/// One step of online softmax (softmax.h). The scores [rows, cols] become probabilities relative to
/// the running maximum of their row. When the maximum rises, the sum and the accumulator of the row
/// are rescaled to it.
struct SoftmaxTile {
  const Processor& processor;
  /// The scores, [rows, cols], row stride `stride`; one of -infinity hides its key. They become the
  /// probabilities, unless bf16_probabilities receives these.
  float* scores = nullptr;
  int64_t stride = 0;
  int64_t rows = 0;
  int64_t cols = 0;  // a multiple of 16
  /// For each row, the end of its visible columns: the columns from visible_end on are hidden from
  /// the row and get probability 0.
  const int64_t* visible_end = nullptr;
  float scale_log2e = 0;         // >= 0: the scale of the logits times log2(e)
  float* row_max = nullptr;      // [rows]: running maximum of the scores, -infinity at first
  float* row_sum = nullptr;      // [rows]: running sum of the probabilities
  float* accumulator = nullptr;  // [rows, accumulator_cols], dense
  int64_t accumulator_cols = 0;  // a multiple of 16
  bool is_first = false;         // the accumulator holds nothing yet
  /// The probabilities in bf16, [rows, cols], row stride `stride`, or null.
  uint16_t* bf16_probabilities = nullptr;
  /// The scales of 8-bit values, [cols], or null. The probabilities in `scores` are then multiplied
  /// by them; a probability of 0 stays 0 whatever the scale is.
  const float* value_scales = nullptr;
  float* largest = nullptr;  // [rows], written: the largest such product, NaN if one is not finite
  UpcomingRows* upcoming = nullptr;  // prefetched meanwhile, or null
};

/// The columns that the last step of a linear map takes at a time.
inline constexpr int64_t kFinishColumns = 64;

/// The last step of a linear map on 64 columns, in place:
/// values = activation(values + bias) * (factors + factor_bias) + residual. No result is -0.
struct FinishTile {
  float* values = nullptr;  // [rows, 64]
  int64_t stride = kFinishColumns;
  int64_t rows = 0;
  const float* bias = nullptr;  // [64]
  Activation activation = Activation::kNone;
  const float* factors = nullptr;      // [rows, 64], dense, or null: 1
  const float* factor_bias = nullptr;  // [64]
  const float* residual = nullptr;     // [rows, cols], or null: 0
  int64_t residual_stride = 0;
  int64_t cols = 0;  // of the residual
};

/// The norm of rows: target = (x - mean) / sqrt(variance + epsilon) * weight + bias (Ba et al.
/// 2016), or x / sqrt(mean(x^2) + epsilon) * weight with `is_rms`; plus the residual.
struct NormTile {
  const float* source = nullptr;  // [rows, cols]
  int64_t source_stride = 0;
  int64_t rows = 0;
  int64_t cols = 0;
  bool is_rms = false;
  float epsilon = 0;
  const float* weight = nullptr;    // [cols]
  const float* bias = nullptr;      // [cols], or null
  const float* residual = nullptr;  // [rows, cols], or null: 0
  int64_t residual_stride = 0;
  void* target = nullptr;  // [rows, cols]; may be the source if target_dtype is f32
  Dtype target_dtype = Dtype::kF32;
  int64_t target_stride = 0;
};

/// A copy of f32 rows in another dtype, divided by the sums of the rows.
struct StoreTile {
  const float* source = nullptr;  // [rows, cols]
  int64_t source_stride = 0;
  int64_t rows = 0;
  int64_t cols = 0;
  /// The sums of the rows, [rows], or null: all 1. A row whose sum is 0 becomes zeros.
  const float* row_sum = nullptr;
  void* target = nullptr;  // [rows, cols]
  Dtype target_dtype = Dtype::kF32;
  int64_t target_stride = 0;
};

/// The rows [rows, cols] of a strided tensor that are packed or copied.
struct PackSource {
  const void* data = nullptr;
  Dtype dtype = Dtype::kF32;
  int64_t stride = 0;
  int64_t rows = 0;
  int64_t cols = 0;
  /// The rows that packing writes, a multiple of 16: those from `rows` on become zeros.
  int64_t packed_rows = kKeyBlock;
};

/// The terms by which the raw scores of one row become logits.
struct LogitRow {
  float alibi_slope = 0;
  float first_distance = 0;     // p - j of the row's position p and the key j of column 0
  const float* bias = nullptr;  // [cols], or null
};

/// The step that turns raw scores into logits, in place: scores[rows, cols] = softcap(scale *
/// scores) - slope * |p - j| + bias.
struct LogitTile {
  float* scores = nullptr;
  int64_t stride = 0;
  int64_t rows = 0;
  int64_t cols = 0;  // of the biases; the scores have a multiple of 16 columns
  float scale = 1;
  float softcap = 0;                // 0: none
  const LogitRow* terms = nullptr;  // [rows]
};

/// The scores of kernel regression for one key block. For kGaussian a score is -|query - key|^2,
/// wrong by some 4e-8 of itself. For kBox and kTriangular it is the weight itself. Where f32 would
/// decide on the wrong side of the edge, or lose the digits of 1 - |query - key| / bandwidth near
/// it, the weight is computed in double precision.
struct DistanceTile {
  Similarity similarity = Similarity::kGaussian;
  double bandwidth = 0;
  const float* query = nullptr;  // [rows, depth]
  int64_t rows = 0;
  int64_t depth = 0;
  /// A packed key block: f32 [depth][kKeyBlock], or bf16 [depth / 2][kKeyBlock][2].
  const void* keys = nullptr;
  Dtype keys_dtype = Dtype::kF32;
  float* scores = nullptr;  // [rows, kKeyBlock], row stride `stride`
  int64_t stride = 0;
};

/// Weights of a similarity that is not softmax. Those of hidden keys (-infinity, or in columns from
/// visible_end on) become 0, and the others are added to the sum of their row.
struct WeightTile {
  float* scores = nullptr;  // [rows, cols], row stride `stride`
  int64_t stride = 0;
  int64_t rows = 0;
  int64_t cols = 0;                      // a multiple of 16
  const int64_t* visible_end = nullptr;  // [rows]
  float* row_sum = nullptr;              // [rows]
};

/// The preparation of query or key rows of one head: root-mean-square norm as in NormTile, then
/// rotation of the first rotary_dim elements, then feature map.
struct RowPreparation {
  PackSource source;
  bool has_norm = false;
  const float* norm_weight = nullptr;  // [cols], or null: ones
  float norm_epsilon = 0;
  int64_t rotary_dim = 0;            // 0: none
  bool interleaved = false;          // as in Rotary
  const float* rotations = nullptr;  // [rows, rotary_dim]: cosines of the pairs, then sines
  bool has_feature_map = false;      // elu(x) + 1
};

/// The memory for rows of 8-bit integers q, with x = scale * (q - 128).
struct QuantisedRows {
  uint8_t* values = nullptr;  // [rows, width], dense; columns past those of the source become 128
  int64_t width = 0;
  float* scales = nullptr;  // [rows]
};

/// The scores of 8-bit rows and 8-bit keys, from their integer products and in place:
/// score = (product - key_offsets[j]) * query_scales[r] * key_scales[j].
struct DequantisedScores {
  float* scores = nullptr;  // [rows, cols], row stride `stride`: int32 products before, f32 after
  int64_t stride = 0;
  int64_t rows = 0;
  int64_t cols = 0;                     // a multiple of 16
  const float* query_scales = nullptr;  // [rows]
  const float* key_scales = nullptr;    // [cols]
  const float* key_offsets = nullptr;   // [cols]: 128 * sum of the key's integers
};

/// The rounding of probabilities, which softmax has multiplied by value_scales, to 8-bit integers,
/// with one scale for each row.
struct QuantisedProbabilities {
  const float* probabilities = nullptr;  // [rows, cols]
  int64_t stride = 0;                    // of the rows of `probabilities` and of `target`
  int64_t rows = 0;
  int64_t cols = 0;                // a multiple of 16
  const float* largest = nullptr;  // [rows], of SoftmaxTile
  uint8_t* target = nullptr;       // [rows, cols]
  float* row_scales = nullptr;     // [rows], written
};

/// Integer sums that are added to f32 sums: target += row_scales[r] * sums.
struct ScaledSums {
  const int32_t* sums = nullptr;      // [rows, cols], dense
  const float* row_scales = nullptr;  // [rows]
  int64_t rows = 0;
  int64_t cols = 0;
  float* target = nullptr;  // [rows, cols], dense
};

/// The conversion of packed bf16 or int8 numbers to dense f32 rows. int8 numbers are multiplied by
/// the scale of their row or column.
struct ExpandTile {
  /// bf16 [rows / 2][source_cols][2], or int8 [rows / 4][source_cols][4].
  const void* source = nullptr;
  const float* row_scales = nullptr;     // [rows], or null
  const float* column_scales = nullptr;  // [cols], or null
  bool int8 = false;                     // otherwise bf16
  int64_t source_cols = 0;               // of which the first `cols` are converted; 0: cols
  int64_t rows = 0;
  int64_t cols = 0;
  float* target = nullptr;  // [rows, cols], dense
};

/// The maximum number of rows of a few-row product.
inline constexpr int64_t kFewRows = 8;

/// A few-row product c[rows, cols] (+)= a[rows, k] b[k, cols]. b is packed as in GemmShape; its
/// numbers of one column that share 32 bits along k make one step. Strides count bytes.
struct FewRowProduct {
  enum Operands {
    kF32,
    kF32Bf16,  // a is f32, b is bf16
    kBf16,     // needs AVX512_BF16
    // bf16, with the bits of a matrix unit; needs AVX512_BF16. It may configure the unit, so a
    // KernelRun must live.
    kBf16Matrix,
    kInt8,  // a is u8, b is s8, c is int32; c is f32 with all others
  };

  const Processor& processor;
  Operands operands = kF32;
  const void* a = nullptr;
  int64_t a_stride = 0;
  int64_t rows = 0;  // 1 to kFewRows
  const void* b = nullptr;
  int64_t b_stride = 0;  // from one step to the next
  int64_t steps = 0;     // of kInt8: <= 256
  int64_t cols = 0;      // a multiple of 16, <= 512
  /// For kBf16Matrix: the number of steps that the matrix unit multiplies at once. It divides
  /// `steps`.
  int64_t tile_steps = 1;
  /// Whether the sequence is so short that b lies in a cache of the processor.
  bool is_short = false;
  void* c = nullptr;
  int64_t c_stride = 0;
  bool accumulate = false;
};

/// The functions of one instruction set. With `compute` kBf16 the sources are bf16; with kF32 they
/// are of any dtype.
struct TileKernels {
  void (*softmax)(const SoftmaxTile& tile);
  void (*logits)(const LogitTile& tile);
  void (*distances)(const DistanceTile& tile);
  void (*weights)(const WeightTile& tile);
  void (*store)(const StoreTile& tile);
  void (*finish)(const FinishTile& tile);
  void (*norm)(const NormTile& tile);
  /// Null on ARM64.
  void (*few_row_product)(const FewRowProduct& product);
  /// Packs up to kKeyBlock rows as one key block: f32 [depth][kKeyBlock], or bf16 [depth /
  /// 2][kKeyBlock][2], of which it writes source.packed_rows keys. Missing rows, and the columns
  /// from source.cols to depth, become zeros.
  void (*pack_transposed)(const PackSource& source, Dtype compute, int64_t depth, void* target);
  /// Packs up to kKeyBlock rows: f32 [kKeyBlock][width], or bf16 [kKeyBlock / 2][width][2], of
  /// which it writes source.packed_rows rows. Missing rows and columns become zeros. Returns
  /// whether every value is finite.
  bool (*pack_rows)(const PackSource& source, Dtype compute, int64_t width, void* target);
  /// Copies rows to `target` [source.rows, width], as `compute`. The columns from source.cols to
  /// width become zeros. With `negate` the sign of each value changes.
  void (*copy_rows)(const PackSource& source, Dtype compute, int64_t width, bool negate,
                    void* target);
  /// Prepares rows in f32, and writes them to `target` [source.rows, source.cols], dense, as
  /// `target_dtype`.
  void (*prepare_rows)(const RowPreparation& rows, Dtype target_dtype, void* target);
  void (*expand)(const ExpandTile& tile);
  /// Rounds rows to 8-bit integers. A row that is not finite gets the scale NaN.
  void (*quantise_rows)(const PackSource& source, const QuantisedRows& target);
  void (*dequantise_scores)(const DequantisedScores& tile);
  void (*quantise_probabilities)(const QuantisedProbabilities& tile);
  void (*add_scaled)(const ScaledSums& tile);
};

/// Returns the functions for CurrentIsa(), of static lifetime.
const TileKernels& CurrentTileKernels();

/// Computes `product`, which may have any number of rows, as few-row products of kFewRows rows.
void MultiplyByFewRows(const TileKernels& kernels, const FewRowProduct& product);

}  // namespace attention
