#include "core/kernels/onednn/gemm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/kernels/onednn/isa.h"
#include "core/kernels/tile/tile_kernels.h"
#include "core/tensor/seeded.h"
#include "gtest/gtest.h"

namespace attention {
namespace {

/// A [64, k] and packed B [k, 64] of the compute type of `dtype`.
struct Operands {
  Operands(Dtype dtype, int64_t depth)
      : compute(ComputeDtype(dtype)),
        k(depth),
        a(SeededTensor(1, compute, {64, depth})),
        b(compute, {depth, 64}) {
    const Tensor columns = SeededTensor(2, compute, {64, depth});
    CurrentTileKernels().pack_transposed({columns.data(), compute, depth, 64, depth}, compute,
                                         depth, b.data());
  }

  /// Rows [first, first + m) of the product of the first `used` of k.
  std::vector<float> Product(int64_t first, int64_t m, int64_t used) const {
    std::vector<float> c(m * 64);
    FindGemm({.m = m, .n = 64, .k = used, .lda = k, .ldb = 64, .ldc = 64, .dtype = compute})
        .Run(ElementAt(a.data(), compute, first * k), b.data(), c.data());
    return c;
  }

  Dtype compute;
  int64_t k;
  Tensor a, b;
};

class GemmTest : public ::testing::TestWithParam<Dtype> {};
INSTANTIATE_TEST_SUITE_P(All, GemmTest, ::testing::Values(Dtype::kF32, Dtype::kBf16),
                         [](const auto& p) { return std::string(Name(p.param)); });

TEST_P(GemmTest, RowsHaveTheSameBitsWhateverTheirNumber) {
  for (const int64_t k : {16, 64, 768, 11008}) {
    const Operands operands(GetParam(), k);
    const std::vector<float> all = operands.Product(0, 64, k);
    for (const int64_t m : {1, 2, 3, 7, 16, 33, 48, 63}) {
      const std::vector<float> some = operands.Product(1, m, k);
      EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin() + 64))
          << "k " << k << ", m " << m;
    }
  }
}

TEST_P(GemmTest, ZerosAtTheEndOfTheDepthChangeNoBit) {
  Operands operands(GetParam(), 256);
  for (const int64_t used : {32, 64, 96, 160}) {
    const std::vector<float> part = operands.Product(0, 64, used);
    Operands zeroed(GetParam(), 256);
    for (int64_t row = 0; row < 64; ++row) {
      const size_t bytes = SizeOf(zeroed.compute);
      auto* first = static_cast<std::byte*>(zeroed.a.data()) + (row * 256 + used) * bytes;
      std::fill_n(first, (256 - used) * bytes, std::byte{0});
    }
    EXPECT_EQ(zeroed.Product(0, 64, 256), part) << used;
  }
}

TEST_P(GemmTest, AccumulatesOntoWhatIsThere) {
  const Operands operands(GetParam(), 64);
  const std::vector<float> once = operands.Product(0, 16, 64);
  std::vector<float> twice = once;
  FindGemm({.m = 16,
            .n = 64,
            .k = 64,
            .lda = 64,
            .ldb = 64,
            .ldc = 64,
            .accumulate = true,
            .dtype = operands.compute})
      .Run(operands.a.data(), operands.b.data(), twice.data());
  // AMX adds each product to what is there, others add the sum of the products.
  for (size_t i = 0; i < once.size(); ++i) {
    ASSERT_NEAR(twice[i], once[i] + once[i], 5e-4);
  }
}

TEST(GemmCacheTest, GeneratesAShapeOnce) {
  const GemmShape shape{.m = 5, .n = 64, .k = 48, .lda = 48, .ldb = 64, .ldc = 64};
  const Gemm& first = FindGemm(shape);
  const int64_t kernels = NumGemmKernels();
  EXPECT_EQ(&FindGemm(shape), &first);
  EXPECT_EQ(NumGemmKernels(), kernels);
}

}  // namespace
}  // namespace attention
