// The scores of kernel regression on every instruction set, against long double: squared distances,
// and weights near the edge of their bandwidth. Guard pages behind.
#include <algorithm>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "tests/core/kernels/tile/guarded_array.h"
#include "tests/core/kernels/tile/instruction_sets.h"

namespace attention {
namespace {

/// Different numbers between 98 and 102: the squares of rows of them are far larger than those of
/// their differences.
std::vector<float> PointsFrom(int64_t first, int64_t count) {
  std::vector<float> numbers(count);
  for (int64_t i = 0; i < count; ++i) {
    numbers[i] = 100.0f + static_cast<float>((i + first) * 7919 % 1021 - 510) / 255.0f;
  }
  return numbers;
}

class DistancesTest : public InstructionSetTest {};
INSTANTIATE_TEST_SUITE_P(All, DistancesTest, ::testing::ValuesIn(InstructionSets()), SetName);

/// Query rows, a key block, and their scores.
struct DistanceProblem {
  DistanceProblem(int64_t num_rows, int64_t num_dimensions)
      : rows(num_rows),
        depth(num_dimensions),
        query(PointsFrom(0, rows * depth)),
        keys(PointsFrom(77, depth * kKeyBlock)),
        scores(rows * kKeyBlock) {}

  double Square(int64_t row, int64_t key) const {
    long double sum = 0;
    for (int64_t d = 0; d < depth; ++d) {
      const long double difference =
          static_cast<long double>(keys[d * kKeyBlock + key]) - query[row * depth + d];
      sum += difference * difference;
    }
    return static_cast<double>(sum);
  }

  /// Takes `bf16_pairs` for the keys, if given.
  void Run(const TileKernels& kernels, Similarity similarity, double bandwidth,
           const uint16_t* bf16_pairs = nullptr) {
    kernels.distances(
        {.similarity = similarity,
         .bandwidth = bandwidth,
         .query = query.data(),
         .rows = rows,
         .depth = depth,
         .keys = bf16_pairs == nullptr ? static_cast<const void*>(keys.data()) : bf16_pairs,
         .keys_dtype = bf16_pairs == nullptr ? Dtype::kF32 : Dtype::kBf16,
         .scores = scores.data(),
         .stride = kKeyBlock});
  }

  int64_t rows;
  int64_t depth;
  GuardedArray<float> query;
  GuardedArray<float> keys;
  GuardedArray<float> scores;
};

// Of a square, a difference rounds twice, each addition once.
TEST_P(DistancesTest, SquaredDistancesAreThoseOfLongDouble) {
  for (const int64_t depth : {16, 48, 512}) {
    for (int64_t rows = 1; rows <= 9; ++rows) {
      DistanceProblem problem(rows, depth);
      problem.Run(kernels(), Similarity::kGaussian, 1);
      for (int64_t i = 0; i < rows * kKeyBlock; ++i) {
        const double square = problem.Square(i / kKeyBlock, i % kKeyBlock);
        const double roundings = 19 + static_cast<double>(depth) / 16;
        ASSERT_NEAR(problem.scores[i], -square, square * roundings * 0x1p-24) << depth;
      }
    }
  }
}

// The edge runs through each of the keys in turn.
TEST_P(DistancesTest, ABoxEndsWhereDoublePrecisionSays) {
  DistanceProblem problem(5, 64);
  for (int64_t i = 0; i < 5 * kKeyBlock; ++i) {
    const double distance = std::sqrt(problem.Square(i / kKeyBlock, i % kKeyBlock));
    for (const double bandwidth : {distance * (1 + 1e-14), distance * (1 - 1e-14)}) {
      problem.Run(kernels(), Similarity::kBox, bandwidth);
      ASSERT_EQ(problem.scores[i], distance <= bandwidth ? 1 : 0) << i;
    }
  }
}

TEST_P(DistancesTest, TriangularWeightsKeepTheirDigitsNearTheEdge) {
  DistanceProblem problem(5, 64);
  for (int64_t i = 0; i < 5 * kKeyBlock; ++i) {
    const double distance = std::sqrt(problem.Square(i / kKeyBlock, i % kKeyBlock));
    for (const double weight : {1e-6, 1e-3, 0.1, 0.2, 0.9}) {
      const double bandwidth = distance / (1 - weight);
      problem.Run(kernels(), Similarity::kTriangular, bandwidth);
      ASSERT_NEAR(problem.scores[i], weight, weight < 0.125 ? weight * 1e-7 : 1e-6) << i;
    }
  }
}

// Only its own row and key decide how a weight is computed.
TEST_P(DistancesTest, AWeightDependsOnItsRowAndKeyAlone) {
  DistanceProblem problem(9, 64);
  for (const Similarity similarity :
       {Similarity::kGaussian, Similarity::kBox, Similarity::kTriangular}) {
    const double bandwidth = 1.1 * std::sqrt(problem.Square(4, 20));
    problem.Run(kernels(), similarity, bandwidth);
    for (int64_t row = 0; row < 9; ++row) {
      DistanceProblem alone(1, 64);
      std::copy_n(problem.query.data() + row * 64, 64, alone.query.data());
      for (int64_t key = 0; key < kKeyBlock; key += 5) {
        for (int64_t i = 0; i < 64 * kKeyBlock; ++i) {  // the others are far away
          alone.keys[i] = i % kKeyBlock == key ? problem.keys[i] : 1e4f;
        }
        alone.Run(kernels(), similarity, bandwidth);
        ASSERT_EQ(alone.scores[key], problem.scores[row * kKeyBlock + key]);
      }
    }
  }
}

// The scores of bf16 keys have the bits of those of the same keys in f32.
TEST_P(DistancesTest, Bf16KeysHaveTheScoresOfTheirNumbers) {
  for (const int64_t depth : {16, 48, 512}) {
    for (const int64_t rows : {1, 2, 4, 9}) {
      DistanceProblem problem(rows, depth);
      GuardedArray<uint16_t> pairs(depth * kKeyBlock);
      for (int64_t i = 0; i < depth * kKeyBlock; ++i) {
        const Bf16 rounded = ToBf16(problem.keys[i]);
        const int64_t dimension = i / kKeyBlock;
        problem.keys[i] = ToFloat(rounded);
        pairs[(dimension / 2 * kKeyBlock + i % kKeyBlock) * 2 + dimension % 2] = rounded.bits;
      }
      const double near = std::sqrt(problem.Square(0, 20));
      for (const auto& [similarity, bandwidth] :
           {std::pair(Similarity::kGaussian, 64.0), std::pair(Similarity::kGaussian, 1e-300),
            std::pair(Similarity::kBox, near), std::pair(Similarity::kTriangular, near)}) {
        problem.Run(kernels(), similarity, bandwidth);
        const std::vector<float> expected = problem.scores.ToVector();
        problem.Run(kernels(), similarity, bandwidth, pairs.data());
        ASSERT_EQ(problem.scores.ToVector(), expected) << Name(similarity) << ", depth " << depth;
      }
    }
  }
}

// Exponents beyond the range of f32: the scores still tell which of two keys is nearer.
TEST_P(DistancesTest, GaussianScoresKeepTheOrderOfDistances) {
  for (const double bandwidth : {1e-30, 1e-34, 1e-39, 1e-120, 1e-300}) {
    DistanceProblem problem(3, 16);
    problem.Run(kernels(), Similarity::kGaussian, bandwidth);
    for (int64_t row = 0; row < 3; ++row) {
      for (int64_t i = 0; i < kKeyBlock; ++i) {
        const float score = problem.scores[row * kKeyBlock + i];
        ASSERT_TRUE(std::isfinite(score * 1.5f)) << bandwidth;
        for (int64_t j = 0; j < kKeyBlock; ++j) {
          if (problem.Square(row, i) < problem.Square(row, j) * 0.9999) {
            ASSERT_GT(score - problem.scores[row * kKeyBlock + j], 200) << bandwidth;
          }
        }
      }
    }
    problem.keys[5] = std::nanf("");
    problem.Run(kernels(), Similarity::kGaussian, bandwidth);
    ASSERT_TRUE(std::isnan(problem.scores[5])) << bandwidth;
  }
}

// Squares beyond the range of f32.
TEST_P(DistancesTest, DistancesOfEverySizeAreComparedWithTheirBandwidth) {
  for (const float size : {0x1p-80f, 0x1p-30f, 0x1p30f, 0x1p80f}) {
    DistanceProblem problem(3, 16);
    for (GuardedArray<float>* array : {&problem.query, &problem.keys}) {
      const int64_t count = array == &problem.query ? 3 * 16 : 16 * kKeyBlock;
      for (int64_t i = 0; i < count; ++i) {
        (*array)[i] *= size;
      }
    }
    const double bandwidth = std::sqrt(problem.Square(1, 20)) * 1.01;
    problem.Run(kernels(), Similarity::kTriangular, bandwidth);
    for (int64_t i = 0; i < 3 * kKeyBlock; ++i) {
      const double distance = std::sqrt(problem.Square(i / kKeyBlock, i % kKeyBlock));
      ASSERT_NEAR(std::max(0.0f, problem.scores[i]), std::max(0.0, 1 - distance / bandwidth), 1e-6);
    }
  }
}

}  // namespace
}  // namespace attention
