// Softmax of a tile on every instruction set, against long double, and the weights of the
// similarities that are not softmax: every number of visible columns up to three vectors. No row
// depends on the other rows of its tile, whose maxima are found meanwhile, nor on the processor
// that the code is tuned for. Guard pages behind.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/runtime/round_up.h"
#include "gtest/gtest.h"
#include "tests/core/kernels/tile/guarded_array.h"
#include "tests/core/kernels/tile/instruction_sets.h"

namespace attention {
namespace {

constexpr int64_t kRows = 11;
constexpr int64_t kCols = 160;
constexpr float kLowest = -std::numeric_limits<float>::infinity();

/// What a tile has after softmax, as bits.
struct Result {
  std::vector<float> probabilities;
  std::vector<uint16_t> bf16;
  std::vector<float> row_max, row_sum;
};

/// Rows of different sizes and different visible columns; row 6 sees none.
float ScoreOf(int64_t row, int64_t col) {
  return static_cast<float>((row * 7919 + col * 104729) % 2003 - 1001) /
         static_cast<float>(40 + 60 * row);
}
int64_t VisibleOf(int64_t row) { return row == 6 ? 0 : std::min(kCols, 5 + row * 37 % 160); }

Result SoftmaxOf(const TileKernels& kernels, int64_t first, int64_t rows, bool is_bf16,
                 const Processor& processor = kProcessors[0]) {
  GuardedArray<float> scores(rows * kCols);
  GuardedArray<uint16_t> bf16(is_bf16 ? rows * kCols : 0);
  std::vector<int64_t> visible(rows);
  for (int64_t r = 0; r < rows; ++r) {
    visible[r] = VisibleOf(first + r);
    for (int64_t i = 0; i < kCols; ++i) {
      scores[r * kCols + i] = ScoreOf(first + r, i);
    }
  }
  Result result{.row_max = std::vector<float>(rows, kLowest), .row_sum = std::vector<float>(rows)};
  std::vector<float> accumulator(rows * 16);
  kernels.softmax({.processor = processor,
                   .scores = scores.data(),
                   .stride = kCols,
                   .rows = rows,
                   .cols = kCols,
                   .visible_end = visible.data(),
                   .scale_log2e = 1.25f,
                   .row_max = result.row_max.data(),
                   .row_sum = result.row_sum.data(),
                   .accumulator = accumulator.data(),
                   .accumulator_cols = 16,
                   .is_first = true,
                   .bf16_probabilities = is_bf16 ? bf16.data() : nullptr});
  result.probabilities = scores.ToVector();
  result.bf16 = bf16.ToVector();
  return result;
}

class SoftmaxTest : public InstructionSetTest {};
INSTANTIATE_TEST_SUITE_P(All, SoftmaxTest, ::testing::ValuesIn(InstructionSets()), SetName);

TEST_P(SoftmaxTest, ARowHasTheSameBitsAloneAndInATile) {
  for (const bool is_bf16 : {false, true}) {
    if (is_bf16 && !GetParam().has_bf16) {
      continue;
    }
    const Result tile = SoftmaxOf(kernels(), 0, kRows, is_bf16);
    for (int64_t r = 0; r < kRows; ++r) {
      const Result alone = SoftmaxOf(kernels(), r, 1, is_bf16);
      ASSERT_EQ(std::bit_cast<uint32_t>(tile.row_max[r]),
                std::bit_cast<uint32_t>(alone.row_max[0]));
      ASSERT_EQ(std::bit_cast<uint32_t>(tile.row_sum[r]),
                std::bit_cast<uint32_t>(alone.row_sum[0]));
      for (int64_t i = 0; i < kCols; ++i) {
        if (is_bf16) {
          ASSERT_EQ(tile.bf16[r * kCols + i], alone.bf16[i]) << r << ' ' << i;
        } else {
          ASSERT_EQ(std::bit_cast<uint32_t>(tile.probabilities[r * kCols + i]),
                    std::bit_cast<uint32_t>(alone.probabilities[i]))
              << r << ' ' << i;
        }
      }
    }
  }
}

TEST_P(SoftmaxTest, EveryProcessorHasTheSameBits) {
  for (const bool is_bf16 : {false, true}) {
    if (is_bf16 && !GetParam().has_bf16) {
      continue;
    }
    const Result expected = SoftmaxOf(kernels(), 0, kRows, is_bf16);
    for (const Processor& processor : kProcessors) {
      const Result actual = SoftmaxOf(kernels(), 0, kRows, is_bf16, processor);
      EXPECT_EQ(actual.probabilities, expected.probabilities) << &processor - kProcessors;
      EXPECT_EQ(actual.bf16, expected.bf16) << &processor - kProcessors;
      EXPECT_EQ(actual.row_sum, expected.row_sum) << &processor - kProcessors;
    }
  }
}

TEST_P(SoftmaxTest, TheMaximumIsThatOfTheVisibleScores) {
  const Result tile = SoftmaxOf(kernels(), 0, kRows, false);
  for (int64_t r = 0; r < kRows; ++r) {
    float expected = kLowest;
    for (int64_t i = 0; i < VisibleOf(r); ++i) {
      expected = std::max(expected, ScoreOf(r, i));
    }
    ASSERT_EQ(tile.row_max[r], expected) << r;
  }
}

/// One row of softmax in two steps: `visible` columns, then kThreeVectors columns with a larger
/// maximum.
struct TwoSteps {
  TwoSteps(const TileKernels& kernels, int64_t visible, bool is_bf16)
      : first(RoundUp(visible, 16)), second(kThreeVectors), bf16(RoundUp(visible, 16)) {
    for (int64_t i = 0; i < std::ssize(first.ToVector()); ++i) {
      first[i] = ScoreAt(i);
    }
    for (int64_t i = 0; i < kThreeVectors; ++i) {
      second[i] = ScoreAt(i) + 1;
    }
    SoftmaxTile tile{.processor = kProcessors[0],
                     .scores = first.data(),
                     .stride = std::ssize(first.ToVector()),
                     .rows = 1,
                     .cols = std::ssize(first.ToVector()),
                     .visible_end = &visible,
                     .scale_log2e = kScale,
                     .row_max = &row_max,
                     .row_sum = &row_sum,
                     .accumulator = accumulator,
                     .accumulator_cols = 16,
                     .is_first = true,
                     .bf16_probabilities = is_bf16 ? bf16.data() : nullptr};
    kernels.softmax(tile);
    max_of_first = row_max;
    std::fill_n(accumulator, 16, 1.0f);
    const int64_t all = kThreeVectors;
    tile.scores = second.data();
    tile.stride = tile.cols = kThreeVectors;
    tile.visible_end = &all;
    tile.is_first = false;
    tile.bf16_probabilities = nullptr;
    kernels.softmax(tile);
  }

  static float ScoreAt(int64_t i) { return static_cast<float>(i * 7919 % 2003 - 1001) / 700; }
  static long double Power(float score, float max) {
    return std::exp2((static_cast<long double>(score) - max) * kScale);
  }

  static constexpr float kScale = 1.25f;
  GuardedArray<float> first, second;
  GuardedArray<uint16_t> bf16;
  float row_max = kLowest, row_sum = 0, max_of_first = 0;
  float accumulator[16] = {};
};

// Exponents of at most 4: their rounding adds 2e-7 to what the polynomial promises (7.5e-8).
TEST_P(SoftmaxTest, ProbabilitiesSumsAndScalesAreThoseOfLongDouble) {
  for (const bool is_bf16 : {false, true}) {
    if (is_bf16 && !GetParam().has_bf16) {
      continue;
    }
    for (int64_t visible = 0; visible <= kThreeVectors; ++visible) {
      const TwoSteps row(kernels(), visible, is_bf16);
      long double sum = 0;
      for (int64_t i = 0; i < RoundUp(visible, 16); ++i) {
        const long double expected =
            i < visible ? TwoSteps::Power(TwoSteps::ScoreAt(i), row.max_of_first) : 0;
        const float actual =
            is_bf16 ? std::bit_cast<float>(uint32_t{row.bf16[i]} << 16) : row.first[i];
        ASSERT_NEAR(actual, expected, (is_bf16 ? 4e-3L : 6e-7L) * expected) << visible << ' ' << i;
        sum += i < visible ? TwoSteps::Power(TwoSteps::ScoreAt(i), row.row_max) : 0;
      }
      for (int64_t i = 0; i < kThreeVectors; ++i) {
        const long double expected = TwoSteps::Power(TwoSteps::ScoreAt(i) + 1, row.row_max);
        ASSERT_NEAR(row.second[i], expected, 6e-7L * expected) << visible << ' ' << i;
        sum += expected;
      }
      ASSERT_NEAR(row.row_sum, sum, (is_bf16 ? 1e-4L : 1e-6L) * sum) << visible;
      const long double factor = visible == 0 ? 0 : TwoSteps::Power(row.max_of_first, row.row_max);
      ASSERT_NEAR(row.accumulator[15], factor, 6e-7L * factor) << visible;
    }
  }
}

TEST_P(SoftmaxTest, WeightsArePositiveScoresOfVisibleColumns) {
  for (int64_t visible = 0; visible <= kThreeVectors; ++visible) {
    const int64_t cols = RoundUp(visible, 16);
    GuardedArray<float> scores(cols);
    for (int64_t i = 0; i < cols; ++i) {
      scores[i] = TwoSteps::ScoreAt(i);
    }
    float row_sum = 0.5f;
    kernels().weights({.scores = scores.data(),
                       .stride = cols,
                       .rows = 1,
                       .cols = cols,
                       .visible_end = &visible,
                       .row_sum = &row_sum});
    long double sum = 0.5L;
    for (int64_t i = 0; i < cols; ++i) {
      const float expected = i < visible ? std::max(TwoSteps::ScoreAt(i), 0.0f) : 0.0f;
      ASSERT_EQ(std::bit_cast<uint32_t>(scores[i]), std::bit_cast<uint32_t>(expected)) << i;
      sum += expected;
    }
    ASSERT_NEAR(row_sum, sum, 1e-6L * sum) << visible;
  }
}

}  // namespace
}  // namespace attention
