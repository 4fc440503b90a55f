#include "core/tensor/ragged.h"

#include <iterator>
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

int64_t RowsOf(const Stage& stage) {
  int64_t rows = 0;
  for (const RowRange& piece : stage) {
    rows += piece.rows;
  }
  return rows;
}

TEST(CutIntoStagesTest, NoStageExceedsTheBlockAndNeighboursTogetherDo) {
  const std::vector<int64_t> lengths = {10, 20, 30, 40, 50, 60, 5, 5, 130};
  const std::vector<Stage> stages = CutIntoStages(lengths, 50);
  for (size_t i = 0; i < stages.size(); ++i) {
    EXPECT_LE(RowsOf(stages[i]), 50);
    if (i > 0) {
      EXPECT_GT(RowsOf(stages[i - 1]) + stages[i].front().rows, 50);
    }
  }
}

TEST(CutIntoStagesTest, CostsBoundStagesOfMoreThanTheLeastRows) {
  const std::vector<int64_t> lengths = {1000, 40, 24, 40, 300};
  const std::vector<double> costs = {1, 100, 100, 1, 2};
  const std::vector<Stage> stages = CutIntoStages(lengths, {.cost = 500, .row_costs = costs});
  std::vector<int64_t> rows;
  for (const Stage& stage : stages) {
    rows.push_back(RowsOf(stage));
  }
  // 448 is 500 in whole steps of 64; 40 and 24 rows cost too much, but are no more than 64.
  EXPECT_EQ(rows, (std::vector<int64_t>{448, 448, 104, 64, 40 + 192, 108}));
}

TEST(CutIntoStagesTest, RowsAndCostsBoundTogether) {
  const std::vector<int64_t> lengths = {300, 300};
  const std::vector<double> costs = {1, 3};
  const std::vector<Stage> stages =
      CutIntoStages(lengths, {.rows = 256, .cost = 400, .row_costs = costs});
  std::vector<int64_t> rows;
  for (const Stage& stage : stages) {
    rows.push_back(RowsOf(stage));
  }
  EXPECT_EQ(rows, (std::vector<int64_t>{256, 44, 128, 128, 44}));
}

TEST(CutIntoStagesTest, AStageHoldsAtMostOnePieceOfASequence) {
  const std::vector<double> costs = {1, 3, 0, 2};
  for (int64_t length = 1; length < 1500; length += 7) {
    const std::vector<int64_t> lengths = {length, 2 * length, length, 40};
    for (const double cost : {100.0, 500.0, 1000.0, 3333.0}) {
      const std::vector<Stage> stages = CutIntoStages(lengths, {.cost = cost, .row_costs = costs});
      std::vector<int64_t> next(lengths.size(), 0);
      for (const Stage& stage : stages) {
        int64_t last_sequence = -1;
        for (const RowRange& piece : stage) {
          ASSERT_GT(piece.sequence, last_sequence) << "length " << length << ", cost " << cost;
          ASSERT_EQ(piece.first_row, next[piece.sequence]);
          ASSERT_EQ(piece.first_row % StageLimits::kMinRows, 0);
          next[piece.sequence] += piece.rows;
          last_sequence = piece.sequence;
        }
      }
      ASSERT_EQ(next, lengths);
    }
  }
}

TEST(StageTest, TakesTheNextRowsOfItsLastSequenceIntoTheSamePiece) {
  Stage stage;
  stage.Add({1, 64, 64});
  stage.Add({1, 128, 7});
  stage.Add({3, 0, 2});
  ASSERT_EQ(std::distance(stage.begin(), stage.end()), 2);
  EXPECT_EQ(stage.front().first_row, 64);
  EXPECT_EQ(stage.front().rows, 71);
  EXPECT_EQ(stage.rows(), 73);
}

TEST(StageDeathTest, RefusesRowsThatWouldRunBesideThoseTheyDependOn) {
  Stage stage;
  stage.Add({1, 64, 64});
  stage.Add({3, 0, 2});
  EXPECT_DEATH(stage.Add({1, 128, 7}), "");
  EXPECT_DEATH(stage.Add({3, 3, 1}), "");
}

TEST(CutIntoStagesTest, NothingMakesNoStage) {
  EXPECT_TRUE(CutIntoStages({}, 64).empty());
  const std::vector<int64_t> lengths = {0, 0};
  EXPECT_TRUE(CutIntoStages(lengths, 64).empty());
}

}  // namespace
}  // namespace attention
