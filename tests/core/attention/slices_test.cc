// Between slices, attention asks its caller whether to continue: no slice is longer than a query
// tile of one head, or the packing of 512 keys, whatever the rows of a stage are.
#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/support/attention_problem.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::HasSubstr;

struct SlicesCase {
  std::string name;
  reference::Extents extents;
  AttentionOptions options = {};
  /// The number of query tiles of each head, and of 512 keys to pack.
  int64_t slices;
};

constexpr int64_t kTile = 64;  // query rows
constexpr int64_t kPack = 512;

const SlicesCase kSlicesCases[] = {
    // Keys of narrow heads are packed again in every stage, which therefore has many rows.
    {"Narrow", {4096, 4096, 3, 3, 1, 1}, {}, 3 * (4096 / kTile + 4096 / kPack)},
    {"NarrowCausal", {2048, 2048, 2, 2, 1, 8}, {.causal = true}, 2 * 2048 / kTile},
    {"NarrowHeadGroup", {2048, 2048, 6, 1, 1, 1}, {}, 6 * 2048 / kTile},
    // A head that fits into the L2 cache is packed and attended to by one thread.
    {"ManyRowsOfFewKeys", {8192, 64, 2, 2, 8, 8}, {}, 2 * 8192 / kTile},
    {"Wide", {512, 1024, 2, 2, 64, 64}, {}, 2 * (512 / kTile + 1024 / kPack)},
    {"Linear",
     {4096, 4096, 3, 3, 1, 1},
     {.similarity = Similarity::kLinear},
     3 * (1 + 4096 / kPack)},
};

class SlicesTest : public ::testing::TestWithParam<SlicesCase> {
 protected:
  /// Returns the bytes of the output.
  std::string Run(const AttentionStages& stages, int num_threads = 1) {
    AttentionProblem problem(7, Dtype::kF32, GetParam().extents, GetParam().options);
    const AttentionSequence sequence = problem.Sequence();
    ThreadPool pool(num_threads);
    Workspace workspace(pool);
    status_ = ScaledDotProductAttention({&sequence, 1}, workspace, stages);
    return {reinterpret_cast<const char*>(problem.output.data()), problem.output.size_bytes()};
  }

  absl::Status status_;
};

INSTANTIATE_TEST_SUITE_P(All, SlicesTest, ::testing::ValuesIn(kSlicesCases),
                         [](const auto& p) { return p.param.name; });

TEST_P(SlicesTest, AreShortAndChangeNoBit) {
  const std::string whole = Run({});
  ASSERT_THAT(status_, IsOk());
  const auto all = [](const RowRange&) { return true; };
  for (const bool has_rows : {false, true}) {
    int64_t slices = 1;
    AttentionStages stages{.slices = {[&] { return ++slices > 0; }, 1}};
    if (has_rows) {
      stages.on_rows = all;
    }
    EXPECT_TRUE(Run(stages) == whole);
    ASSERT_THAT(status_, IsOk());
    // Packing and attending are not divided from each other.
    EXPECT_GE(slices, GetParam().slices * 9 / 10) << (has_rows ? "in stages" : "in one stage");
    EXPECT_TRUE(Run(stages, 2) == whole) << "two threads";
  }
}

TEST_P(SlicesTest, EndWhenTheCallerWantsNoMore) {
  int asked = 0;
  Run({.slices = {[&] { return ++asked < 3; }, 1}});
  EXPECT_THAT(status_, StatusIs(absl::StatusCode::kCancelled, HasSubstr("between slices")));
  EXPECT_EQ(asked, 3);
}

TEST(WholeSlicesTest, WorkThatFitsIntoOneIsNotDivided) {
  AttentionProblem problem(7, Dtype::kF32, {256, 256, 4, 4, 64, 64});
  const AttentionSequence sequence = problem.Sequence();
  ThreadPool pool(1);
  Workspace workspace(pool);
  int asked = 0;
  const AttentionStages stages{.slices = {[&] { return ++asked > 0; }, SliceFlops(pool)}};
  ASSERT_THAT(ScaledDotProductAttention({&sequence, 1}, workspace, stages), IsOk());
  EXPECT_EQ(asked, 0);
}

}  // namespace
}  // namespace attention
