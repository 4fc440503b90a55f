// The memory of attention is a small multiple of its operands' bytes, also where every sequence and
// head is padded to much more than it has; and padding changes no bit.
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "core/attention/attention.h"
#include "core/tensor/seeded.h"
#include "gtest/gtest.h"
#include "tests/core/layers/test_layer.h"
#include "tests/support/allocation_meter.h"
#include "tests/support/attention_problem.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kFreeBytes = 64 * kMiB;
constexpr int64_t kMultiple = 4;

/// Equal sequences whose sizes are small and whose padded sizes are large.
struct Padded {
  std::string name;
  int64_t sequences = 1;
  int64_t rows = 1;
  int64_t keys = 1;
  int64_t heads = 1;
  int64_t width = 1;
  int64_t value_width = 1;
  Similarity similarity = Similarity::kDotProduct;
};

void PrintTo(const Padded& padded, std::ostream* out) { *out << padded.name; }

constexpr Similarity kLinear = Similarity::kLinear;

const Padded kPadded[] = {
    {"SequencesOfOneRow", 4096, 1, 1, 8, 64, 64},
    {"NarrowHeads", 1, 1, 1, 131072},
    {"NarrowHeadsOfManyKeys", 1, 1, 200, 8192},
    {"NarrowHeadsOfSeveralStages", 1, 150, 150, 4096},
    {"FewKeysForSeveralStages", 1, 150, 1, 16384},
    {"LinearSequencesOfOneRow", 4096, 1, 1, 8, 64, 64, kLinear},
    {"LinearNarrowHeads", 1, 1, 1, 65536, 1, 1, kLinear},
    {"LinearHeadsWithoutKeys", 1, 1, 0, 16384, 1, 512, kLinear},
    {"LinearHeadsOfSeveralStages", 1, 65, 1, 16384, 1, 64, kLinear},
};

/// A way to compute all rows.
struct Way {
  std::string name;
  int threads = 1;
  bool is_streamed = false;
};

const Way kWays[] = {{"whole, by one thread", 1},
                     {"whole, by two threads", 2},
                     {"streamed, by one thread", 1, true},
                     {"streamed, by two threads", 2, true}};

class PackedMemoryTest : public ::testing::TestWithParam<Padded> {
 protected:
  /// Returns the largest memory of the computation besides its operands and its output.
  int64_t Compute(const Way& way) {
    const Padded& p = GetParam();
    std::vector<AttentionSequence> sequences;
    for (int64_t i = 0; i < p.sequences; ++i) {
      sequences.push_back(
          {.query = SliceTokens(Heads(query_), i * p.rows, p.rows),
           .key = SliceTokens(Heads(key_), i * p.keys, p.keys),
           .value = SliceTokens(Heads(value_), i * p.keys, p.keys),
           .output = SliceTokens(DenseHeads(output_.data(), Dtype::kF32, p.sequences * p.rows,
                                            p.heads, p.value_width),
                                 i * p.rows, p.rows),
           .options = {.causal = true, .similarity = p.similarity}});
    }
    ThreadPool pool(way.threads);
    Workspace workspace(pool);
    const AllocationMeter meter;
    AttentionStages stages{.block_rows = 1};
    if (way.is_streamed) {
      stages.on_rows = [](const RowRange&) { return true; };
    }
    EXPECT_THAT(ScaledDotProductAttention(sequences, workspace, stages), IsOk());
    return meter.peak_bytes();
  }

  static HeadsView Heads(const Tensor& tensor) {
    const Shape& shape = tensor.shape();
    return DenseHeads(tensor.data(), tensor.dtype(), shape[0], shape[1], shape[2]);
  }
  static Tensor Operand(uint64_t seed, int64_t rows, int64_t width) {
    return SeededTensor(seed, Dtype::kF32, {GetParam().sequences * rows, GetParam().heads, width});
  }

  Tensor query_ = Operand(1, GetParam().rows, GetParam().width);
  Tensor key_ = Operand(2, GetParam().keys, GetParam().width);
  Tensor value_ = Operand(3, GetParam().keys, GetParam().value_width);
  Tensor output_ = Tensor(Dtype::kF32, {GetParam().sequences * GetParam().rows, GetParam().heads,
                                        GetParam().value_width});
};

INSTANTIATE_TEST_SUITE_P(All, PackedMemoryTest, ::testing::ValuesIn(kPadded),
                         [](const auto& p) { return p.param.name; });

TEST_P(PackedMemoryTest, IsASmallMultipleOfTheOperands) {
  const auto operand_bytes =
      static_cast<int64_t>(Bytes(query_).size() + Bytes(key_).size() + Bytes(value_).size());
  std::vector<uint8_t> expected;
  for (const Way& way : kWays) {
    EXPECT_LE(Compute(way), kFreeBytes + kMultiple * operand_bytes) << way.name;
    expected = expected.empty() ? Bytes(output_) : expected;
    EXPECT_TRUE(Bytes(output_) == expected) << way.name;
  }
}

// Keys that few rows use once are packed a key tile at a time, not a head at a time.
TEST(PackedMemoryOfFewRowsTest, DoesNotGrowWithTheKeys) {
  constexpr int64_t kHeads = 2;
  constexpr int64_t kWidth = 64;
  constexpr int64_t kRows = 64;
  const auto peak_bytes = [](int64_t keys, bool is_streamed) {
    const Tensor query = SeededTensor(1, Dtype::kF32, {kRows, kHeads, kWidth});
    const Tensor key = SeededTensor(2, Dtype::kF32, {keys, kHeads, kWidth});
    Tensor output(Dtype::kF32, {kRows, kHeads, kWidth});
    const HeadsView heads = DenseHeads<const void*>(key.data(), Dtype::kF32, keys, kHeads, kWidth);
    const AttentionSequence sequence{
        .query = DenseHeads<const void*>(query.data(), Dtype::kF32, kRows, kHeads, kWidth),
        .key = heads,
        .value = heads,
        .output = DenseHeads(output.data(), Dtype::kF32, kRows, kHeads, kWidth)};
    ThreadPool pool(2);
    Workspace workspace(pool);
    const AllocationMeter meter;
    AttentionStages stages;
    if (is_streamed) {
      stages.on_rows = [](const RowRange&) { return true; };
    }
    EXPECT_THAT(ScaledDotProductAttention({&sequence, 1}, workspace, stages), IsOk());
    return meter.peak_bytes();
  };
  for (const bool is_streamed : {false, true}) {
    peak_bytes(40000, is_streamed);  // makes the kernels
    const int64_t few = peak_bytes(20000, is_streamed);
    EXPECT_LE(peak_bytes(40000, is_streamed), few + kMiB) << is_streamed;
    EXPECT_LE(few, 4 * kMiB) << is_streamed;
  }
}

TEST(PackedLayerMemoryTest, IsASmallMultipleOfTheRowsWhenSequencesHaveOneRow) {
  constexpr int64_t kRows = 4096;
  const TestLayer layer({512, 512, 8, 8, 64, 64}, Dtype::kF32);
  Batch batch(layer, Dtype::kF32, std::vector<int64_t>(kRows, 1), /*causal=*/true);
  ThreadPool pool(2);
  Workspace workspace(pool);
  for (const bool is_streamed : {false, true}) {
    const AllocationMeter meter;
    int asked = 0;
    Batch::Listeners listeners{.yield = [&] { return ++asked > 0; }};
    if (is_streamed) {
      listeners.on_rows = [](const RowRange&) { return true; };
    }
    ASSERT_THAT(batch.Run(workspace, listeners), IsOk());
    EXPECT_GT(asked, 1) << "is it sliced?";
    // Queries, keys, values and context are as large as the rows.
    EXPECT_LE(meter.peak_bytes(), kFreeBytes + 8 * kRows * 512 * int64_t{sizeof(float)});
  }
}

// Keys of narrow heads take too much memory to be kept packed, and are packed again in every stage.
// So there are few stages, or a window over many rows would take the square of their number.
TEST(PackedMemoryStagesTest, NarrowHeadsHaveFewStages) {
  constexpr int64_t kRows = 12'800;
  for (const auto& [width, num_stages] : {std::pair(8, 16), std::pair(64, 50)}) {
    AttentionProblem problem(6, Dtype::kF32, {kRows, kRows, 1, 1, width, width},
                             {.causal = true, .window = 4});
    ThreadPool pool(1);
    Workspace workspace(pool);
    const AttentionSequence sequence = problem.Sequence();
    int stages = 0;
    const RowsCallback on_rows = [&](const RowRange&) {
      ++stages;
      return true;
    };
    ASSERT_THAT(ScaledDotProductAttention({&sequence, 1}, workspace, {on_rows, 256}), IsOk());
    EXPECT_EQ(stages, num_stages) << width;
  }
}

}  // namespace
}  // namespace attention
