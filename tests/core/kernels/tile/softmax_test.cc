// Softmax of a tile on every instruction set: no row depends on the other rows of its tile, whose
// maxima are found meanwhile. Guard pages behind.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

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

Result SoftmaxOf(const TileKernels& kernels, int64_t first, int64_t rows, bool is_bf16) {
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
  kernels.softmax({.scores = scores.data(),
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

}  // namespace
}  // namespace attention
