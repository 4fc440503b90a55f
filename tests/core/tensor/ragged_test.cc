#include "core/tensor/ragged.h"

#include <vector>

#include "gtest/gtest.h"

namespace attention {
namespace {

TEST(CutIntoStagesTest, CoversEveryRowOnceInOrder) {
  const std::vector<int64_t> lengths = {5, 0, 130, 1, 64, 300};
  std::vector<int64_t> next(lengths.size(), 0);
  int64_t last_sequence = 0;
  for (const Stage& stage : CutIntoStages(lengths, 64)) {
    ASSERT_FALSE(stage.empty());
    for (const RowRange& piece : stage) {
      EXPECT_GE(piece.sequence, last_sequence);
      EXPECT_EQ(piece.first_row, next[piece.sequence]);
      EXPECT_EQ(piece.first_row % 64, 0);
      EXPECT_LE(piece.rows, 64);
      next[piece.sequence] += piece.rows;
      last_sequence = piece.sequence;
    }
  }
  EXPECT_EQ(next, lengths);
}

TEST(CutIntoStagesTest, FillsEveryStageButTheLast) {
  const std::vector<int64_t> lengths = {10, 20, 30, 40, 50, 60};
  const std::vector<Stage> stages = CutIntoStages(lengths, 50);
  for (size_t i = 0; i + 1 < stages.size(); ++i) {
    int64_t rows = 0;
    for (const RowRange& piece : stages[i]) {
      rows += piece.rows;
    }
    EXPECT_GE(rows, 50);
  }
}

TEST(CutIntoStagesTest, NothingMakesNoStage) {
  EXPECT_TRUE(CutIntoStages({}, 64).empty());
  const std::vector<int64_t> lengths = {0, 0};
  EXPECT_TRUE(CutIntoStages(lengths, 64).empty());
}

}  // namespace
}  // namespace attention
