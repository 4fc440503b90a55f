#include "core/kernels/attention/matrix_unit.h"

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "core/kernels/gemm/gemm.h"
#include "core/kernels/onednn/isa.h"
#include "core/kernels/tile/tile_kernels.h"
#include "core/tensor/dtype.h"

namespace attention {
namespace {

constexpr int64_t kCols = 64;

/// Returns numbers whose sums have other bits when they are added in another order.
std::vector<Bf16> Operand(int64_t count, int64_t first) {
  std::vector<Bf16> operand(count);
  for (int64_t i = 0; i < count; ++i) {
    operand[i] = ToBf16(static_cast<float>((i * 7919 + first) % 1021 - 510) / 97.0f);
  }
  return operand;
}

/// Returns whether few-row products of so many rows have the bits of oneDNN's.
bool HasItsBits(int64_t rows, int64_t depth) {
  const KernelRun run;
  const std::vector<Bf16> a = Operand(rows * depth, 13);
  const std::vector<Bf16> b = Operand(depth * kCols, 29);
  std::vector<float> multiplied(rows * kCols, 1.0f / 3);
  std::vector<float> few_rows = multiplied;
  FindGemm({.m = rows,
            .n = kCols,
            .k = depth,
            .lda = depth,
            .ldb = kCols,
            .ldc = kCols,
            .accumulate = true,
            .dtype = Dtype::kBf16})
      .Run(a.data(), b.data(), multiplied.data());
  CurrentTileKernels().few_row_product({.processor = CurrentAbilities().processor,
                                        .operands = FewRowProduct::kBf16Matrix,
                                        .a = a.data(),
                                        .a_stride = depth * 2,
                                        .rows = rows,
                                        .b = b.data(),
                                        .b_stride = kCols * 4,
                                        .steps = depth / 2,
                                        .cols = kCols,
                                        .tile_steps = MatrixTileSteps(depth),
                                        .c = few_rows.data(),
                                        .c_stride = kCols * 4,
                                        .accumulate = true});
  return few_rows == multiplied;
}

}  // namespace

int64_t MatrixTileSteps(int64_t depth) {
  int64_t steps = std::min<int64_t>(depth / 2, 16);
  while (depth / 2 % steps != 0) {
    --steps;
  }
  return steps;
}

bool HasMatrixUnitBits() {
  // Two rows by vectors, four by the unit.
  static const bool has_its_bits =
      HasMatrixUnit() &&
      std::ranges::all_of(
          std::initializer_list<int64_t>{16, 48, 80, 112, 128, 256},
          [](int64_t depth) { return HasItsBits(2, depth) && HasItsBits(4, depth); });
  return has_its_bits;
}

}  // namespace attention
