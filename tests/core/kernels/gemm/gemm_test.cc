#include "core/kernels/gemm/gemm.h"

#include <algorithm>
#include <cmath>
#include <thread>
#include <vector>

#include "core/attention/attention.h"
#include "core/kernels/gemm/gemm_cache.h"
#include "core/kernels/onednn/isa.h"
#include "core/kernels/tile/tile_kernels.h"
#include "core/tensor/seeded.h"
#include "gtest/gtest.h"
#include "tests/core/layers/test_layer.h"
#include "tests/support/attention_problem.h"
#include "tests/support/golden.h"
#include "tests/support/matchers.h"

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
  std::vector<float> Product(int64_t first, int64_t m, int64_t used,
                             bool reads_memory = false) const {
    std::vector<float> c(m * 64);
    FindGemm({.m = m,
              .n = 64,
              .k = used,
              .lda = k,
              .ldb = 64,
              .ldc = 64,
              .dtype = compute,
              .reads_memory = reads_memory})
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

// Large weights are multiplied by other code where rows are few.
TEST_P(GemmTest, RowsHaveTheSameBitsWhereverTheWeightsComeFrom) {
  for (const int64_t k : {16, 64, 768, 1024}) {
    const Operands operands(GetParam(), k);
    const std::vector<float> all = operands.Product(0, 64, k);
    for (int64_t m = 1; m <= 10; ++m) {
      const std::vector<float> some = operands.Product(1, m, k, /*reads_memory=*/true);
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

#ifdef __x86_64__
/// Whether the registers of a matrix unit hold anything on this thread. REQUIRES: HasMatrixUnit().
bool MatrixUnitIsInUse() {
  uint32_t low = 0;
  uint32_t high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));  // XINUSE
  constexpr uint32_t kTileState = 3U << 17;
  return (low & kTileState) != 0;
}

TEST(KernelRunTest, FreesTheMatrixUnit) {
  if (!HasMatrixUnit()) {
    GTEST_SKIP() << "skipped AMX: no matrix unit in use";
  }
  {
    const KernelLease lease;
    const KernelRun run;
    const Operands operands(Dtype::kBf16, 64);
    const std::vector<float> product = operands.Product(0, 64, 64);
    EXPECT_TRUE(MatrixUnitIsInUse());
    operands.Product(0, 16, 32);  // another kernel, with tiles of its own
    EXPECT_EQ(operands.Product(0, 64, 64), product);
  }
  EXPECT_FALSE(MatrixUnitIsInUse());
}

TEST(KernelRunTest, AttentionAndLayersLeaveTheMatrixUnitFree) {
  if (!HasMatrixUnit()) {
    GTEST_SKIP() << "skipped AMX: no matrix unit in use";
  }
  for (const Similarity similarity : {Similarity::kDotProduct, Similarity::kLinear}) {
    for (const int64_t rows : {1, 3, 300}) {
      AttentionProblem problem(7, Dtype::kBf16, {rows, 300, 4, 2, 64, 64},
                               {.similarity = similarity});
      RunAlone(problem);
      EXPECT_FALSE(MatrixUnitIsInUse()) << rows;
    }
  }
  for (const WeightsDtype dtype : {WeightsDtype::kBf16, WeightsDtype::kInt8}) {
    const TestLayer layer({128, 128, 4, 2, 32, 32}, dtype);
    ASSERT_THAT(Batch(layer, layer.layer->dtype(), {70, 1}, true).Run(1), IsOk());
    EXPECT_FALSE(MatrixUnitIsInUse());
  }
}
#endif

GemmShape ShapeOfDepth(int64_t k) {
  return {.m = 5, .n = 16, .k = k, .lda = k, .ldb = 16, .ldc = 16};
}

/// C of ones, whose elements are the depth.
std::vector<float> ProductOfOnes(int64_t k) {
  const std::vector<float> a(5 * k, 1.0f);
  const std::vector<float> b(k * 16, 1.0f);
  std::vector<float> c(5 * 16);
  const KernelLease lease;
  FindGemm(ShapeOfDepth(k)).Run(a.data(), b.data(), c.data());
  return c;
}

class GemmCacheTest : public ::testing::Test {
 protected:
  static constexpr int64_t kMax = 8;
  ~GemmCacheTest() override { GemmCache::Get().SetMax(kMaxGemmKernels); }
};

TEST_F(GemmCacheTest, GeneratesAShapeOnce) {
  const KernelLease lease;
  const GemmShape shape{.m = 5, .n = 64, .k = 48, .lda = 48, .ldb = 64, .ldc = 64};
  const Gemm& first = FindGemm(shape);
  const int64_t kernels = CountGemmKernels().generated;
  EXPECT_EQ(&FindGemm(shape), &first);
  EXPECT_EQ(CountGemmKernels().generated, kernels);
}

TEST_F(GemmCacheTest, AFloodOfShapesIsHeldWithinTheBound) {
  GemmCache::Get().SetMax(kMax);
  const GemmCounts before = CountGemmKernels();
  for (int64_t k = 1; k <= 60; ++k) {
    ASSERT_EQ(ProductOfOnes(k), std::vector<float>(5 * 16, static_cast<float>(k)));
    ASSERT_LE(CountGemmKernels().held, kMax + 1);
  }
  const GemmCounts after = CountGemmKernels();
  EXPECT_EQ(after.generated - before.generated, 60);
  EXPECT_EQ(after.generated - after.evicted, after.held);
}

TEST_F(GemmCacheTest, WhatIsUsedAllTheTimeIsNotDisplacedByWhatIsUsedOnce) {
  GemmCache::Get().SetMax(kMax);
  ProductOfOnes(64);
  for (int64_t k = 1; k <= 16; ++k) {  // some evictions, in all of which it is used
    ProductOfOnes(k);
    ProductOfOnes(64);
  }
  const int64_t generated = CountGemmKernels().generated;
  for (int64_t k = 100; k < 160; ++k) {
    ProductOfOnes(k);
    ProductOfOnes(64);
  }
  EXPECT_EQ(CountGemmKernels().generated - generated, 60) << "only what is new";
}

TEST_F(GemmCacheTest, NothingIsFreedWhileSomebodyComputes) {
  GemmCache::Get().SetMax(kMax);
  ProductOfOnes(300);  // frees what other tests have left
  const KernelLease lease;
  const int64_t evicted = CountGemmKernels().evicted;
  ASSERT_LE(CountGemmKernels().held, kMax);
  // Another thread begins computations: one that may not wait for this one, up to twice as many.
  std::thread other([&] {
    for (int64_t k = 1; CountGemmKernels().held < 2 * kMax; ++k) {
      ProductOfOnes(200 + k);
    }
  });
  other.join();
  EXPECT_EQ(CountGemmKernels().evicted, evicted);
  EXPECT_EQ(CountGemmKernels().held, 2 * kMax);
}

// Attention keeps pointers to its kernels between calls.
TEST_F(GemmCacheTest, AComputationWithinAnotherOfItsThreadDoesNotWaitForIt) {
  GemmCache::Get().SetMax(kMax);
  const KernelLease outer;
  for (int64_t k = 1; CountGemmKernels().held <= 2 * kMax; ++k) {
    ProductOfOnes(400 + k);
  }
  ProductOfOnes(300);
  EXPECT_GT(CountGemmKernels().held, 2 * kMax);
}

TEST_F(GemmCacheTest, AttentionGivesTheSameBitsWhileItsKernelsComeAndGo) {
  const auto run = [](int64_t head_dim) {
    AttentionProblem problem(7, Dtype::kF32, {70, 300, 4, 2, head_dim, head_dim}, {.causal = true});
    ThreadPool pool(2);
    Workspace workspace(pool);
    const AttentionSequence sequence = problem.Sequence();
    EXPECT_THAT(ScaledDotProductAttention({&sequence, 1}, workspace), IsOk());
    return Bytes(problem.output);
  };
  const auto expected = run(48);
  GemmCache::Get().SetMax(kMax);
  const int64_t evicted = CountGemmKernels().evicted;
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      for (int64_t head_dim = 16; head_dim <= 128; head_dim += 16) {
        run(head_dim + i);
        EXPECT_EQ(run(48), expected);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_GT(CountGemmKernels().evicted, evicted);
}

}  // namespace
}  // namespace attention
