// The kernels over whole rows on every instruction set, against long double: norm, finish, query
// and key rows, logits, 8-bit scores and sums. Guard pages behind.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "core/tensor/dtype.h"
#include "core/tensor/tensor.h"
#include "gtest/gtest.h"
#include "tests/core/kernels/tile/guarded_array.h"
#include "tests/core/kernels/tile/instruction_sets.h"

namespace attention {
namespace {

constexpr Dtype kTargets[] = {Dtype::kF32, Dtype::kBf16, Dtype::kF16};

/// `count` different numbers between -2 and 2.
std::vector<float> SomeNumbers(int64_t count, int64_t first = 0) {
  std::vector<float> numbers(count);
  for (int64_t i = 0; i < count; ++i) {
    numbers[i] = static_cast<float>((i + first) * 7919 % 1021 - 510) / 255.0f;
  }
  return numbers;
}

/// Half of a unit in the last place of a number near 1, as a share of the number.
long double RoundingOf(Dtype dtype) {
  return dtype == Dtype::kF32 ? 0x1p-24L : dtype == Dtype::kF16 ? 0x1p-11L : 0x1p-8L;
}

float Read(const std::byte* row, Dtype dtype, int64_t i) {
  float number = 0;
  Convert(dtype, ElementAt(row, dtype, i), Dtype::kF32, &number, 1);
  return number;
}

class RowKernelsTest : public InstructionSetTest {};
INSTANTIATE_TEST_SUITE_P(All, RowKernelsTest, ::testing::ValuesIn(InstructionSets()), SetName);

/// The norm of a row in long double.
std::vector<long double> ExpectedNorm(const NormTile& tile, const float* row,
                                      const float* residual) {
  long double mean = 0;
  for (int64_t i = 0; i < tile.cols && !tile.is_rms; ++i) {
    mean += row[i];
  }
  mean /= tile.cols;  // at the end, so that the mean of equal numbers is theirs
  long double mean_square = 0;
  for (int64_t i = 0; i < tile.cols; ++i) {
    mean_square += (row[i] - mean) * (row[i] - mean) / tile.cols;
  }
  std::vector<long double> expected(tile.cols);
  for (int64_t i = 0; i < tile.cols; ++i) {
    expected[i] = (row[i] - mean) / std::sqrt(mean_square + tile.epsilon) * tile.weight[i];
    expected[i] += tile.bias == nullptr ? 0 : tile.bias[i];
    expected[i] += residual == nullptr ? 0 : residual[i];
  }
  return expected;
}

// Eight roundings of numbers up to 8, and that of the target.
TEST_P(RowKernelsTest, NormIsThatOfLongDouble) {
  constexpr int64_t kRows = 3;
  for (int64_t cols = 1; cols <= kThreeVectors; ++cols) {
    const GuardedArray<float> source(SomeNumbers(kRows * cols));
    const GuardedArray<float> weight(SomeNumbers(cols, 5));
    const GuardedArray<float> bias(SomeNumbers(cols, 11));
    const GuardedArray<float> residual(SomeNumbers(kRows * cols, 17));
    for (int kind = 0; kind < 8; ++kind) {
      const Dtype dtype = kTargets[(cols + kind) % 3];
      GuardedArray<std::byte> target(kRows * cols * static_cast<int64_t>(SizeOf(dtype)));
      const NormTile tile{.source = source.data(),
                          .source_stride = cols,
                          .rows = kRows,
                          .cols = cols,
                          .is_rms = (kind & 1) != 0,
                          .epsilon = 1e-3f,
                          .weight = weight.data(),
                          .bias = (kind & 2) != 0 ? bias.data() : nullptr,
                          .residual = (kind & 4) != 0 ? residual.data() : nullptr,
                          .residual_stride = cols,
                          .target = target.data(),
                          .target_dtype = dtype,
                          .target_stride = cols};
      kernels().norm(tile);
      for (int64_t i = 0; i < kRows * cols; ++i) {
        const int64_t first = i / cols * cols;
        const long double expected =
            ExpectedNorm(tile, source.data() + first,
                         tile.residual == nullptr ? nullptr : residual.data() + first)[i % cols];
        ASSERT_NEAR(Read(target.data(), dtype, i), static_cast<double>(expected),
                    static_cast<double>(64 * 0x1p-24L + std::abs(expected) * RoundingOf(dtype)))
            << "column " << i % cols << " of " << cols << ", kind " << kind;
      }
    }
  }
}

// Their squares exceed what f32 can hold, or their sum.
TEST_P(RowKernelsTest, LayerNormOfLargeRowsDoesNotOverflow) {
  std::vector<std::vector<float>> rows;
  for (const int64_t cols : {int64_t{8}, int64_t{100}, int64_t{512}}) {
    for (const float magnitude : {0x1p58f, 0x1p64f, 0x1p122f}) {
      std::vector<float>& row = rows.emplace_back(SomeNumbers(cols));
      std::ranges::for_each(row, [&](float& number) { number *= magnitude; });
    }
    rows.emplace_back(cols, 1e27f);  // all alike, which leaves their bias
    rows.emplace_back(cols, 1e36f);
    std::vector<float>& opposed =
        rows.emplace_back(cols, 1e38f);  // lanes of opposite infinite sums
    for (int64_t i = 0; i < cols; ++i) {
      opposed[i] *= i % 16 < 8 ? 1.0f : -1.0f;
    }
  }
  rows.emplace_back(5, 1e27f);
  for (const std::vector<float>& row : rows) {
    const auto cols = std::ssize(row);
    const std::vector<float> weight(cols, 1.0f), bias(cols, 0.5f);
    for (const bool is_rms : {false, true}) {
      std::vector<float> target(cols);
      const NormTile tile{.source = row.data(),
                          .rows = 1,
                          .cols = cols,
                          .is_rms = is_rms,
                          .epsilon = 1e-6f,
                          .weight = weight.data(),
                          .bias = bias.data(),
                          .target = target.data()};
      kernels().norm(tile);
      const std::vector<long double> expected = ExpectedNorm(tile, row.data(), nullptr);
      for (int64_t i = 0; i < cols; ++i) {
        ASSERT_NEAR(target[i], static_cast<double>(expected[i]), 64 * 0x1p-24)
            << i << " of " << cols << ", " << row[i] << ", " << is_rms;
      }
    }
  }
}

long double Activated(Activation activation, long double x) {
  constexpr long double kPi = std::numbers::pi_v<long double>;
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return std::max(x, 0.0L);
    case Activation::kGelu:
      return 0.5L * x * (1 + std::erf(x / std::sqrt(2.0L)));
    case Activation::kGeluTanh:
      return 0.5L * x * (1 + std::tanh(std::sqrt(2 / kPi) * (x + 0.044715L * x * x * x)));
    case Activation::kSilu:
      break;
  }
  return x / (1 + std::exp(-x));
}

// The promised error of an activation is 1e-6 of its argument.
TEST_P(RowKernelsTest, FinishedRowsAreThoseOfLongDouble) {
  constexpr int64_t kRows = 3;
  constexpr int64_t kCols = 64;
  const std::vector<float> values = SomeNumbers(kRows * kCols);
  const GuardedArray<float> bias(SomeNumbers(kCols, 3));
  const GuardedArray<float> factors(SomeNumbers(kRows * kCols, 7));
  const GuardedArray<float> factor_bias(SomeNumbers(kCols, 13));
  for (const Activation activation : {Activation::kNone, Activation::kRelu, Activation::kGelu,
                                      Activation::kGeluTanh, Activation::kSilu}) {
    for (int64_t cols = 0; cols <= kCols; ++cols) {  // of the residual
      const bool is_gated = cols % 2 == 0;
      const GuardedArray<float> residual(SomeNumbers(kRows * cols, 23));
      GuardedArray<float> actual(values);
      kernels().finish({.values = actual.data(),
                        .rows = kRows,
                        .bias = bias.data(),
                        .activation = activation,
                        .factors = is_gated ? factors.data() : nullptr,
                        .factor_bias = is_gated ? factor_bias.data() : nullptr,
                        .residual = cols == 0 ? nullptr : residual.data(),
                        .residual_stride = cols,
                        .cols = cols});
      for (int64_t i = 0; i < kRows * kCols; ++i) {
        const int64_t col = i % kCols;
        const long double x = static_cast<long double>(values[i]) + bias[col];
        const long double factor =
            is_gated ? static_cast<long double>(factors[i]) + factor_bias[col] : 1;
        const long double expected = Activated(activation, x) * factor +
                                     (col < cols ? residual[i / kCols * cols + col] : 0.0f);
        const long double bound =
            1e-6L * (std::abs(x * factor) + 1e-2L) + 0x1p-23L * std::abs(expected);
        ASSERT_NEAR(actual[i], static_cast<double>(expected), static_cast<double>(bound))
            << "activation " << static_cast<int>(activation) << ", x " << static_cast<double>(x);
      }
    }
  }
}

/// Norm, rotation and feature map of one row in long double.
std::vector<long double> ExpectedRow(const RowPreparation& rows, const std::vector<float>& source,
                                     const float* rotations) {
  std::vector<long double> x(source.begin(), source.end());
  const auto cols = static_cast<int64_t>(x.size());
  if (rows.has_norm) {
    long double mean_square = 0;
    for (const long double v : x) {
      mean_square += v * v / cols;
    }
    for (int64_t i = 0; i < cols; ++i) {
      x[i] *= (rows.norm_weight == nullptr ? 1 : rows.norm_weight[i]) /
              std::sqrt(mean_square + rows.norm_epsilon);
    }
  }
  const int64_t pairs = rows.rotary_dim / 2;
  for (int64_t i = 0; i < pairs; ++i) {
    long double& a = x[rows.interleaved ? 2 * i : i];
    long double& b = x[rows.interleaved ? 2 * i + 1 : i + pairs];
    const long double before = a;
    a = before * rotations[i] - b * rotations[i + pairs];
    b = b * rotations[i] + before * rotations[i + pairs];
  }
  for (long double& v : x) {
    v = !rows.has_feature_map ? v : v > 0 ? v + 1 : std::exp(v);
  }
  return x;
}

TEST_P(RowKernelsTest, PreparedRowsAreScaledAndRotated) {
  constexpr int64_t kRows = 2;
  for (int64_t cols = 1; cols <= kThreeVectors; ++cols) {
    for (int kind = 0; kind < 16; ++kind) {
      const Dtype from = kTargets[kind % 3];
      const Dtype to = kTargets[(kind + cols) % 2];
      const int64_t rotary_dim = (kind & 4) != 0 ? cols / 2 * 2 : 0;
      std::vector<float> numbers = SomeNumbers(kRows * cols);
      std::vector<std::byte> bytes(numbers.size() * SizeOf(from));
      Convert(Dtype::kF32, numbers.data(), from, bytes.data(), std::ssize(numbers));
      Convert(from, bytes.data(), Dtype::kF32, numbers.data(), std::ssize(numbers));
      const GuardedArray<std::byte> source(bytes);
      const GuardedArray<float> weight(SomeNumbers(cols, 3));
      const GuardedArray<float> rotations(SomeNumbers(kRows * rotary_dim, 9));
      GuardedArray<std::byte> target(kRows * cols * static_cast<int64_t>(SizeOf(to)));
      const RowPreparation rows{.source = {source.data(), from, cols, kRows, cols},
                                .has_norm = (kind & 1) != 0,
                                .norm_weight = (kind & 2) != 0 ? weight.data() : nullptr,
                                .norm_epsilon = 1e-3f,
                                .rotary_dim = rotary_dim,
                                .interleaved = cols % 3 == 0,
                                .rotations = rotations.data(),
                                .has_feature_map = (kind & 8) != 0};
      kernels().prepare_rows(rows, to, target.data());
      for (int64_t r = 0; r < kRows; ++r) {
        const std::vector<long double> expected =
            ExpectedRow(rows, {numbers.begin() + r * cols, numbers.begin() + (r + 1) * cols},
                        rotations.data() + r * rotary_dim);
        for (int64_t i = 0; i < cols; ++i) {
          const long double rounding = 1e-6L + RoundingOf(to);
          ASSERT_NEAR(Read(target.data(), to, r * cols + i), static_cast<double>(expected[i]),
                      static_cast<double>(rounding * std::abs(expected[i]) + 4e-6L))
              << i << " of " << cols << ", kind " << kind;
        }
      }
    }
  }
}

// Their squares exceed what f32 can hold.
TEST_P(RowKernelsTest, NormOfLargeRowsDoesNotOverflow) {
  for (const int64_t cols : {int64_t{1}, int64_t{8}, int64_t{512}}) {
    for (const float magnitude : {0x1p58f, 0x1p64f, 0x1p122f}) {
      std::vector<float> numbers = SomeNumbers(cols);
      for (float& number : numbers) {
        number *= magnitude;
      }
      const RowPreparation rows{.source = {numbers.data(), Dtype::kF32, cols, 1, cols},
                                .has_norm = true,
                                .norm_epsilon = 1e-6f};
      std::vector<float> target(cols);
      kernels().prepare_rows(rows, Dtype::kF32, target.data());
      const std::vector<long double> expected = ExpectedRow(rows, numbers, nullptr);
      for (int64_t i = 0; i < cols; ++i) {
        ASSERT_NEAR(target[i], static_cast<double>(expected[i]),
                    2e-6 * std::abs(static_cast<double>(expected[i])))
            << i << " of " << cols << ", " << magnitude;
      }
    }
  }
}

TEST_P(RowKernelsTest, LogitsAreThoseOfLongDouble) {
  constexpr int64_t kRows = 2;
  for (int64_t cols = 1; cols <= kThreeVectors; ++cols) {
    const int64_t stride = (cols + 15) / 16 * 16;
    const std::vector<float> scores = SomeNumbers(kRows * stride);
    std::vector<float> numbers = SomeNumbers(kRows * cols, 31);
    numbers[cols / 2] = -std::numeric_limits<float>::infinity();
    const GuardedArray<float> bias(numbers);
    for (int kind = 0; kind < 8; ++kind) {
      const float softcap = (kind & 1) != 0 ? 3.0f : 0.0f;
      const float slope = (kind & 2) != 0 ? 0.25f : 0.0f;
      const bool has_bias = (kind & 4) != 0;
      const LogitRow terms[kRows] = {{slope, 5, has_bias ? bias.data() : nullptr},
                                     {-slope, 40, has_bias ? bias.data() + cols : nullptr}};
      GuardedArray<float> actual(scores);
      kernels().logits({.scores = actual.data(),
                        .stride = stride,
                        .rows = kRows,
                        .cols = cols,
                        .scale = 1.5f,
                        .softcap = softcap,
                        .terms = terms});
      for (int64_t i = 0; i < kRows * cols; ++i) {
        const int64_t row = i / cols;
        const int64_t col = i % cols;
        long double x = 1.5L * scores[row * stride + col];
        x = softcap > 0 ? softcap * std::tanh(x / softcap) : x;
        x -= terms[row].alibi_slope *
             std::abs(static_cast<long double>(terms[row].first_distance) - col);
        x += has_bias ? bias[i] : 0.0f;
        const float logit = actual[row * stride + col];
        if (std::isinf(x)) {
          ASSERT_EQ(logit, static_cast<float>(x));
        } else {
          ASSERT_NEAR(logit, static_cast<double>(x), 2e-6) << col << " of " << cols;
        }
      }
    }
  }
}

// Both factors are rounded, and their product.
TEST_P(RowKernelsTest, DequantisedScoresAreThoseOfTheirScales) {
  constexpr int64_t kRows = 3;
  for (int64_t cols = 16; cols <= kThreeVectors; cols += 16) {
    const GuardedArray<float> query_scales(SomeNumbers(kRows, 2));
    const GuardedArray<float> key_scales(SomeNumbers(cols, 4));
    std::vector<float> whole = SomeNumbers(cols, 6);
    for (float& offset : whole) {
      offset = std::round(offset * 1e4f) * 128;
    }
    const GuardedArray<float> key_offsets(whole);
    GuardedArray<float> scores(kRows * cols);
    std::vector<int32_t> products(kRows * cols);
    for (int64_t i = 0; i < kRows * cols; ++i) {
      products[i] = static_cast<int32_t>(i * 104729 % 8000003 - 4000000);
      scores[i] = std::bit_cast<float>(products[i]);
    }
    kernels().dequantise_scores({.scores = scores.data(),
                                 .stride = cols,
                                 .rows = kRows,
                                 .cols = cols,
                                 .query_scales = query_scales.data(),
                                 .key_scales = key_scales.data(),
                                 .key_offsets = key_offsets.data()});
    for (int64_t i = 0; i < kRows * cols; ++i) {
      const double expected = (static_cast<double>(products[i]) - key_offsets[i % cols]) *
                              query_scales[i / cols] * key_scales[i % cols];
      ASSERT_NEAR(scores[i], expected, std::abs(expected) * 0x1p-22) << i;
    }
  }
}

TEST_P(RowKernelsTest, ScaledSumsAreAdded) {
  constexpr int64_t kRows = 3;
  for (int64_t cols = 0; cols <= kThreeVectors; ++cols) {
    const std::vector<float> before = SomeNumbers(kRows * cols);
    const GuardedArray<float> row_scales(SomeNumbers(kRows, 8));
    GuardedArray<int32_t> sums(kRows * cols);
    GuardedArray<float> target(before);
    for (int64_t i = 0; i < kRows * cols; ++i) {
      sums[i] = static_cast<int32_t>(i * 104729 % 2003 - 1000);
    }
    kernels().add_scaled({.sums = sums.data(),
                          .row_scales = row_scales.data(),
                          .rows = kRows,
                          .cols = cols,
                          .target = target.data()});
    for (int64_t i = 0; i < kRows * cols; ++i) {
      const double product = static_cast<double>(row_scales[i / cols]) * sums[i];
      ASSERT_NEAR(target[i], before[i] + product, (std::abs(product) + 4) * 0x1p-23) << i;
    }
  }
}

}  // namespace
}  // namespace attention
