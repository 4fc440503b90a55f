// Few-row products on every instruction set that has them, and for every processor that they are
// tuned for: the bits of plain chains of multiply-adds in the order of k, exact integers, guard
// pages behind.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/kernels/attention/matrix_unit.h"
#include "core/kernels/gemm/gemm.h"
#include "core/kernels/onednn/isa.h"
#include "core/tensor/dtype.h"
#include "gtest/gtest.h"
#include "tests/core/kernels/tile/guarded_array.h"
#include "tests/core/kernels/tile/instruction_sets.h"

namespace attention {
namespace {

/// [rows, depth] times [depth, cols].
struct Extents {
  int64_t rows, depth, cols;
};

/// Small odd fractions, different everywhere.
float Number(int64_t i) { return static_cast<float>((i * 7919 + 13) % 1021 - 510) / 64.0f; }

/// Returns `dense` [rows, ...] with `gap` elements `between` its rows.
template <typename T>
std::vector<T> Apart(const std::vector<T>& dense, int64_t rows, int64_t gap, T between) {
  const int64_t width = std::ssize(dense) / rows;
  std::vector<T> apart(rows * (width + gap) - gap, between);
  for (int64_t r = 0; r < rows; ++r) {
    std::copy_n(dense.begin() + r * width, width, apart.begin() + r * (width + gap));
  }
  return apart;
}

class FewRowProductTest : public InstructionSetTest {
 protected:
  /// c[rows, cols], which begins as ones, after one product; the rows of a, b and c lie apart. The
  /// bits are those of every processor.
  template <typename C, typename A, typename B>
  std::vector<C> Multiply(FewRowProduct::Operands operands, const Extents& x,
                          const std::vector<A>& a, const std::vector<B>& b, bool accumulate) const {
    constexpr int64_t kGap = 16;
    const int64_t together = 4 / static_cast<int64_t>(sizeof(B));
    const int64_t steps = x.depth / together;
    const GuardedArray<A> guarded_a(Apart(a, x.rows, kGap, a.back()));
    const GuardedArray<B> guarded_b(Apart(b, steps, kGap * together, b.back()));
    const KernelRun run;  // of several rows by a matrix unit
    std::vector<C> result;
    for (const Processor& processor : kProcessors) {
      const std::vector<C> ones(x.rows * x.cols, C{1});
      GuardedArray<C> c(Apart(ones, x.rows, kGap, C{7}));
      kernels().few_row_product({.processor = processor,
                                 .operands = operands,
                                 .a = guarded_a.data(),
                                 .a_stride = (x.depth + kGap) * static_cast<int64_t>(sizeof(A)),
                                 .rows = x.rows,
                                 .b = guarded_b.data(),
                                 .b_stride = (x.cols + kGap) * 4,
                                 .steps = steps,
                                 .cols = x.cols,
                                 .tile_steps = MatrixTileSteps(x.depth),
                                 .c = c.data(),
                                 .c_stride = (x.cols + kGap) * static_cast<int64_t>(sizeof(C)),
                                 .accumulate = accumulate});
      const std::vector<C> apart = c.ToVector();
      std::vector<C> dense;
      for (int64_t r = 0; r < x.rows; ++r) {
        const auto row = apart.begin() + r * (x.cols + kGap);
        dense.insert(dense.end(), row, row + x.cols);
      }
      result = result.empty() ? dense : result;
      EXPECT_EQ(std::memcmp(dense.data(), result.data(), result.size() * sizeof(C)), 0)
          << x.rows << " x " << x.depth << " x " << x.cols << ", processor "
          << &processor - kProcessors;
      EXPECT_EQ(apart, Apart(dense, x.rows, kGap, C{7})) << "written between the rows of c";
    }
    return result;
  }
};

std::vector<InstructionSet> SetsWithFewRowProducts() {
  std::vector<InstructionSet> sets = InstructionSets();
  std::erase_if(sets,
                [](const InstructionSet& set) { return set.kernels->few_row_product == nullptr; });
  return sets;
}
INSTANTIATE_TEST_SUITE_P(All, FewRowProductTest, ::testing::ValuesIn(SetsWithFewRowProducts()),
                         SetName);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FewRowProductTest);

/// Every number of rows, columns from one to three vectors and a block, chains of several lengths.
std::vector<Extents> AllProductExtents() {
  std::vector<Extents> all;
  for (int64_t rows = 1; rows <= 8; ++rows) {
    for (const int64_t cols : {16, 32, 48, 64, 128, 144, 512}) {
      for (const int64_t depth : {4, 16, 64, 128, 256}) {
        all.push_back({rows, depth, cols});
      }
    }
  }
  return all;
}

/// b[depth, cols], and the same rows `together` by `together`.
template <typename T>
struct Packed {
  std::vector<float> plain;
  std::vector<T> packed;
};

template <typename T, typename Make>
Packed<T> Pack(const Extents& x, const Make& make) {
  const int64_t together = 4 / static_cast<int64_t>(sizeof(T));
  Packed<T> result{std::vector<float>(x.depth * x.cols), std::vector<T>(x.depth * x.cols)};
  for (int64_t k = 0; k < x.depth; ++k) {
    for (int64_t j = 0; j < x.cols; ++j) {
      const T element = make(k * x.cols + j);
      result.packed[(k / together * x.cols + j) * together + k % together] = element;
      if constexpr (std::is_same_v<T, Bf16>) {
        result.plain[k * x.cols + j] = ToFloat(element);
      } else {
        result.plain[k * x.cols + j] = static_cast<float>(element);
      }
    }
  }
  return result;
}

/// One chain for each element, added to 1 at its end with `accumulate`.
std::vector<float> Chains(const InstructionSet& set, const Extents& x, const std::vector<float>& a,
                          const std::vector<float>& b, bool accumulate) {
  std::vector<float> c(x.rows * x.cols);
  for (int64_t i = 0; i < x.rows; ++i) {
    for (int64_t j = 0; j < x.cols; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < x.depth; ++k) {
        const float number = a[i * x.depth + k];
        const float other = b[k * x.cols + j];
        sum = set.has_fma ? std::fma(number, other, sum) : sum + number * other;
      }
      c[i * x.cols + j] = accumulate ? 1 + sum : sum;
    }
  }
  return c;
}

std::vector<float> RowsOfA(const Extents& x) {
  std::vector<float> a(x.rows * x.depth);
  for (int64_t i = 0; i < std::ssize(a); ++i) {
    a[i] = Number(3 * i + 1);
  }
  return a;
}

std::vector<Bf16> Bf16RowsOfA(const Extents& x) {
  std::vector<Bf16> a(x.rows * x.depth);
  for (int64_t i = 0; i < std::ssize(a); ++i) {
    a[i] = ToBf16(Number(3 * i + 1));
  }
  return a;
}

TEST_P(FewRowProductTest, F32HasTheBitsOfOneChain) {
  for (const Extents& x : AllProductExtents()) {
    const std::vector<float> a = RowsOfA(x);
    const Packed<float> b = Pack<float>(x, Number);
    const bool accumulate = x.rows % 2 == 0;
    ASSERT_EQ(Multiply<float>(FewRowProduct::kF32, x, a, b.packed, accumulate),
              Chains(GetParam(), x, a, b.plain, accumulate))
        << x.rows << " x " << x.depth << " x " << x.cols;
  }
}

TEST_P(FewRowProductTest, F32TimesBf16HasTheBitsOfOneChain) {
  for (const Extents& x : AllProductExtents()) {
    const std::vector<float> a = RowsOfA(x);
    const Packed<Bf16> b = Pack<Bf16>(x, [](int64_t i) { return ToBf16(Number(i)); });
    const bool accumulate = x.rows % 2 == 0;
    ASSERT_EQ(Multiply<float>(FewRowProduct::kF32Bf16, x, a, b.packed, accumulate),
              Chains(GetParam(), x, a, b.plain, accumulate))
        << x.rows << " x " << x.depth << " x " << x.cols;
  }
}

TEST_P(FewRowProductTest, Bf16IsWithinTheRoundingOfItsChain) {
  if (!GetParam().has_bf16) {
    GTEST_SKIP() << "its kernels take no bf16 operands";
  }
  for (const Extents& x : AllProductExtents()) {
    const std::vector<Bf16> a = Bf16RowsOfA(x);
    const Packed<Bf16> b = Pack<Bf16>(x, [](int64_t i) { return ToBf16(Number(i)); });
    const std::vector<float> c = Multiply<float>(FewRowProduct::kBf16, x, a, b.packed, false);
    for (int64_t i = 0; i < std::ssize(c); ++i) {
      long double sum = 0;
      long double magnitude = 0;
      for (int64_t k = 0; k < x.depth; ++k) {
        const long double product = static_cast<long double>(ToFloat(a[i / x.cols * x.depth + k])) *
                                    b.plain[k * x.cols + i % x.cols];
        sum += product;
        magnitude += std::abs(product);
      }
      ASSERT_NEAR(c[i], static_cast<double>(sum),
                  static_cast<double>(magnitude * x.depth * 0x1p-24L));
    }
  }
}

/// As Intel's manual describes TDPBF16PS: even and odd elements of a tile are two chains, whose sum
/// is added to c.
std::vector<float> MatrixChains(const Extents& x, const std::vector<Bf16>& a,
                                const std::vector<float>& b, bool accumulate) {
  const int64_t tile_depth = 2 * MatrixTileSteps(x.depth);
  std::vector<float> c(x.rows * x.cols, accumulate ? 1.0f : 0.0f);
  for (int64_t i = 0; i < std::ssize(c); ++i) {
    for (int64_t first = 0; first < x.depth; first += tile_depth) {
      float sums[2] = {0, 0};
      for (int64_t k = first; k < first + tile_depth; ++k) {
        sums[k % 2] =
            std::fma(ToFloat(a[i / x.cols * x.depth + k]), b[k * x.cols + i % x.cols], sums[k % 2]);
      }
      c[i] += sums[0] + sums[1];
    }
  }
  return c;
}

TEST_P(FewRowProductTest, Bf16HasTheBitsOfAMatrixUnitWhereItIsAsked) {
  if (!GetParam().has_bf16) {
    GTEST_SKIP() << "its kernels take no bf16 operands";
  }
  for (const int64_t depth : {32, 48, 72, 80, 128, 144, 256}) {
    for (const int64_t cols : {16, 48, 64, 80, 144, 512}) {
      for (int64_t rows = 1; rows <= 8; ++rows) {
        const Extents x{rows, depth, cols};
        const std::vector<Bf16> a = Bf16RowsOfA(x);
        const Packed<Bf16> b = Pack<Bf16>(x, [](int64_t i) { return ToBf16(Number(i)); });
        const bool accumulate = rows % 2 == 0;
        ASSERT_EQ(Multiply<float>(FewRowProduct::kBf16Matrix, x, a, b.packed, accumulate),
                  MatrixChains(x, a, b.plain, accumulate))
            << rows << " x " << depth << " x " << cols;
      }
    }
  }
}

TEST_P(FewRowProductTest, AMatrixUnitTakesSubnormalNumbersForZero) {
  if (!GetParam().has_bf16) {
    GTEST_SKIP() << "its kernels take no bf16 operands";
  }
  for (const int64_t rows : {1, 3}) {  // by vectors; by the unit itself, where there is one
    const Extents x{rows, 32, 16};
    const auto sum_of = [&](float a, float b) {
      const Packed<Bf16> packed = Pack<Bf16>(x, [&](int64_t) { return ToBf16(b); });
      return Multiply<float>(FewRowProduct::kBf16Matrix, x, std::vector<Bf16>(rows * 32, ToBf16(a)),
                             packed.packed, false);
    };
    const auto all = [rows](float sum) { return std::vector<float>(rows * 16, sum); };
    EXPECT_EQ(sum_of(0x1p-70f, 0x1p-70f), all(0));   // the products
    EXPECT_EQ(sum_of(0x1p-130f, 0x1p100f), all(0));  // the elements
    EXPECT_EQ(sum_of(0x1p-60f, 0x1p-60f), all(0x1p-115f));
  }
  const volatile float smallest = 0x1p-126f;  // the caller's own numbers stay what they were
  EXPECT_GT(smallest / 2, 0.0f);
}

TEST(MatrixUnitTest, TilesAreTheLargestEvenDivisorsUpTo32) {
  EXPECT_EQ(MatrixTileSteps(2), 1);
  EXPECT_EQ(MatrixTileSteps(16), 8);
  EXPECT_EQ(MatrixTileSteps(32), 16);
  EXPECT_EQ(MatrixTileSteps(48), 12);
  EXPECT_EQ(MatrixTileSteps(80), 10);
  EXPECT_EQ(MatrixTileSteps(112), 14);
  EXPECT_EQ(MatrixTileSteps(256), 16);
}

// With another version of oneDNN it may stop to hold: answers stay right then, decoding is slower.
TEST(MatrixUnitTest, FewRowsHaveItsBits) {
  if (!HasMatrixUnit()) {
    GTEST_SKIP() << "skipped AMX: no matrix unit in use";
  }
  const KernelLease lease;
  EXPECT_TRUE(HasMatrixUnitBits());
}

// The largest products too, whose sums of two exceed 16 bits.
TEST_P(FewRowProductTest, IntegersAreExact) {
  for (const Extents& x : AllProductExtents()) {
    std::vector<uint8_t> a(x.rows * x.depth);
    for (int64_t i = 0; i < std::ssize(a); ++i) {
      a[i] = static_cast<uint8_t>(i % 3 == 0 ? 255 : i * 37);
    }
    const Packed<int8_t> b = Pack<int8_t>(x, [](int64_t i) {
      return static_cast<int8_t>(i % 5 == 0 ? -127 : i % 3 == 0 ? 127 : i * 41 % 255 - 127);
    });
    const bool accumulate = x.rows % 2 == 0;
    std::vector<int32_t> expected(x.rows * x.cols);
    for (int64_t i = 0; i < std::ssize(expected); ++i) {
      int32_t sum = accumulate ? 1 : 0;
      for (int64_t k = 0; k < x.depth; ++k) {
        sum += a[i / x.cols * x.depth + k] * static_cast<int32_t>(b.plain[k * x.cols + i % x.cols]);
      }
      expected[i] = sum;
    }
    ASSERT_EQ(Multiply<int32_t>(FewRowProduct::kInt8, x, a, b.packed, accumulate), expected)
        << x.rows << " x " << x.depth << " x " << x.cols;
  }
}

// AVX2 adds up 256 times the products, whose sums over all steps would exceed 32 bits.
TEST_P(FewRowProductTest, TheLargestSumsOfIntegersAreExact) {
  constexpr int64_t kDepth = 1024;
  for (const int64_t cols : {16, 64}) {
    for (const int64_t rows : {1, 2, 4}) {
      const std::vector<uint8_t> a(rows * kDepth, 255);
      const std::vector<int8_t> b(kDepth * cols, -128);
      const std::vector<int32_t> expected(rows * cols, kDepth * 255 * -128);
      ASSERT_EQ(Multiply<int32_t>(FewRowProduct::kInt8, {rows, kDepth, cols}, a, b, false),
                expected)
          << rows << " x " << cols;
    }
  }
}

}  // namespace
}  // namespace attention
