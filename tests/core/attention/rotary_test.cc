// The tables of rotations that the sequences and layers of one run share.
#include "core/kernels/attention/rotary.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/runtime/thread_pool.h"
#include "gtest/gtest.h"

namespace attention {
namespace {

constexpr int64_t kRotatedDim = 16;
constexpr int64_t kPositions = 70;  // more than a block of positions

class RotaryTablesTest : public ::testing::Test {
 protected:
  const RotaryTable* Get(const Rotary& rotary, int64_t first_position, int64_t count = kPositions,
                         int64_t head_dim = kRotatedDim) {
    const RotaryTables::Range range{&rotary, head_dim, first_position, count};
    return tables_.Get({&range, 1}, pool_).front();
  }

  ThreadPool pool_{1};
  RotaryTables tables_;
};

TEST_F(RotaryTablesTest, PositionsThatAreAskedForAgainHaveTheSameTable) {
  const Rotary rotary;
  const Rotary equal = rotary;
  const RotaryTables::Range ranges[] = {{&rotary, kRotatedDim, 7, kPositions},
                                        {&rotary, kRotatedDim, 0, kPositions},
                                        {&equal, kRotatedDim, 7, kPositions}};
  const std::vector<const RotaryTable*> made = tables_.Get(ranges, pool_);
  EXPECT_EQ(made[0], made[2]) << "another sequence";
  EXPECT_NE(made[0], made[1]);
  EXPECT_EQ(tables_.Get(ranges, pool_), made) << "another layer";
  EXPECT_EQ(Get({.dim = kRotatedDim}, 7), made[0]);
  EXPECT_EQ(Get({.position_offset = 4}, 3), made[0]);
  const RotaryTable expected(rotary, kRotatedDim, 7, kPositions);
  EXPECT_TRUE(std::equal(expected.Row(0), expected.Row(kPositions), made[0]->Row(0)));
}

TEST_F(RotaryTablesTest, OtherRotationsHaveOtherTables) {
  const RotaryTable* const table = Get({}, 7);
  EXPECT_NE(Get({}, 8), table);
  EXPECT_NE(Get({}, 7, kPositions - 1), table);
  EXPECT_NE(Get({}, 7, kPositions, 2 * kRotatedDim), table);
  EXPECT_NE(Get({.base = 500000}, 7), table);
  EXPECT_NE(Get({.interleaved = true}, 7), table);
  EXPECT_NE(Get({.scaling = Rotary::Scaling::kLinear, .factor = 2}, 7), table);
  EXPECT_NE(Get({.magnitude = 2}, 7), table);
}

TEST_F(RotaryTablesTest, GivenFrequenciesAreComparedByValue) {
  const std::vector<double> frequencies(kRotatedDim / 2, 0.25);
  const std::vector<double> equal = frequencies;
  const std::vector<double> other(kRotatedDim / 2, 0.5);
  const RotaryTable* const table = Get({.frequencies = frequencies.data()}, 7);
  EXPECT_NE(Get({}, 7), table);
  EXPECT_EQ(Get({.frequencies = equal.data()}, 7), table);
  EXPECT_NE(Get({.frequencies = other.data()}, 7), table);
}

}  // namespace
}  // namespace attention
