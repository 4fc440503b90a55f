// What must hold for attention whatever the numbers are: laws of the operation, and of its bits.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/attention/kv_cache.h"
#include "core/tensor/seeded.h"
#include "gtest/gtest.h"
#include "tests/support/attention_problem.h"
#include "tests/support/golden.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using Problems = std::vector<std::unique_ptr<AttentionProblem>>;

/// Ragged, causal and not, with 4 query and 2 key/value heads.
Problems MakeRagged(Dtype dtype) {
  const std::pair<int64_t, int64_t> lengths[] = {{1, 1},   {17, 17},   {64, 64},  {65, 130},
                                                 {0, 40},  {100, 100}, {3, 1029}, {700, 700},
                                                 {90, 33}, {12, 0}};
  Problems problems;
  for (const auto& [query_len, kv_len] : lengths) {
    const uint64_t seed = problems.size();
    problems.push_back(std::make_unique<AttentionProblem>(
        seed, dtype, reference::Extents{query_len, kv_len, 4, 2, 64, 48},
        AttentionOptions{.causal = seed % 3 != 0}));
  }
  return problems;
}

void RunBatch(Problems& problems, int num_threads, const RowsCallback& on_rows = nullptr,
              int64_t block_rows = 256) {
  std::vector<AttentionSequence> sequences;
  for (auto& problem : problems) {
    sequences.push_back(problem->Sequence());
  }
  ThreadPool pool(num_threads);
  Workspace workspace(pool);
  ASSERT_THAT(ScaledDotProductAttention(sequences, workspace, {on_rows, block_rows}), IsOk());
}

class BitsTest : public ::testing::TestWithParam<Dtype> {};
INSTANTIATE_TEST_SUITE_P(All, BitsTest, ::testing::Values(Dtype::kF32, Dtype::kBf16, Dtype::kF16),
                         [](const auto& p) { return std::string(Name(p.param)); });

TEST_P(BitsTest, BatchOfManyEqualsEachAlone) {
  Problems batch = MakeRagged(GetParam());
  RunBatch(batch, 1);
  Problems alone = MakeRagged(GetParam());
  for (size_t i = 0; i < alone.size(); ++i) {
    RunAlone(*alone[i]);
    EXPECT_EQ(Bytes(batch[i]->output), Bytes(alone[i]->output)) << "sequence " << i;
  }
}

TEST_P(BitsTest, ThreadsDoNotMatter) {
  Problems one = MakeRagged(GetParam());
  RunBatch(one, 1);
  for (const int threads : {2, 3}) {
    Problems many = MakeRagged(GetParam());
    RunBatch(many, threads);
    for (size_t i = 0; i < one.size(); ++i) {
      EXPECT_EQ(Bytes(one[i]->output), Bytes(many[i]->output)) << "sequence " << i;
    }
  }
}

TEST_P(BitsTest, RowBlocksDoNotMatterAndArriveInOrder) {
  Problems whole = MakeRagged(GetParam());
  RunBatch(whole, 2);
  Problems blocks = MakeRagged(GetParam());
  std::vector<int64_t> next_row(blocks.size(), 0);
  RunBatch(
      blocks, 2,
      [&](const RowRange& rows) {
        EXPECT_EQ(rows.first_row, next_row[rows.sequence]);
        next_row[rows.sequence] += rows.rows;
        return true;
      },
      70);
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(next_row[i], whole[i]->extents.query_len);
    EXPECT_EQ(Bytes(whole[i]->output), Bytes(blocks[i]->output)) << "sequence " << i;
  }
}

/// Rows [first, first + count) as a call of their own, standing where they stand in the whole
/// sequence.
std::vector<uint8_t> RowsAlone(AttentionProblem& problem, int64_t first, int64_t count,
                               int64_t kv_len) {
  AttentionSequence part = problem.Sequence();
  part.options.query_offset = first + problem.extents.kv_len - problem.extents.query_len;
  part.query = SliceTokens(part.query, first, count);
  part.key = SliceTokens(part.key, 0, kv_len);
  part.value = SliceTokens(part.value, 0, kv_len);
  Tensor output(problem.output.dtype(), {count, 4, 48});
  part.output = DenseHeads(output.data(), output.dtype(), count, 4, 48);
  ThreadPool pool(1);
  Workspace workspace(pool);
  EXPECT_THAT(ScaledDotProductAttention({&part, 1}, workspace), IsOk());
  return Bytes(output);
}

TEST_P(BitsTest, CutsOfACausalSequenceDoNotMatter) {
  AttentionProblem whole(5, GetParam(), {700, 700, 4, 2, 64, 48}, {.causal = true});
  RunAlone(whole);
  const std::vector<uint8_t> expected = Bytes(whole.output);
  const int64_t row_bytes = std::ssize(expected) / 700;
  for (const auto& [first, count] : std::vector<std::pair<int64_t, int64_t>>{{0, 1},
                                                                             {1, 30},
                                                                             {31, 33},
                                                                             {64, 100},
                                                                             {164, 1},
                                                                             {510, 1},
                                                                             {511, 1},
                                                                             {512, 1},
                                                                             {513, 100},
                                                                             {699, 1}}) {
    // As a decoder would: only the keys up to the last row are there yet.
    const auto part = RowsAlone(whole, first, count, first + count);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), expected.begin() + first * row_bytes))
        << "rows " << first << " + " << count;
  }
}

void SetRow(Tensor& tensor, int64_t row, float value) {
  const int64_t width = tensor.num_elements() / tensor.shape()[0];
  const std::vector<float> values(width, value);
  Convert(Dtype::kF32, values.data(), tensor.dtype(),
          ElementAt(tensor.data(), tensor.dtype(), row * width), width);
}

TEST_P(BitsTest, NaNInALaterTokenReachesNoEarlierRow) {
  for (const int64_t poisoned : {5, 33, 64, 127, 300, 513, 599}) {
    AttentionProblem clean(6, GetParam(), {600, 600, 4, 2, 64, 48}, {.causal = true});
    RunAlone(clean);
    AttentionProblem dirty(6, GetParam(), {600, 600, 4, 2, 64, 48}, {.causal = true});
    SetRow(dirty.key, poisoned, std::numeric_limits<float>::quiet_NaN());
    SetRow(dirty.value, poisoned, std::numeric_limits<float>::infinity());
    const std::vector<double> output = RunAlone(dirty);
    const std::vector<uint8_t> expected = Bytes(clean.output);
    const std::vector<uint8_t> actual = Bytes(dirty.output);
    const int64_t row_bytes = std::ssize(expected) / 600;
    EXPECT_TRUE(
        std::equal(expected.begin(), expected.begin() + poisoned * row_bytes, actual.begin()))
        << poisoned;
    EXPECT_TRUE(std::isnan(output[poisoned * 4 * 48])) << "the poisoned row itself is not hidden";
  }
}

TEST(LawsTest, ConstantValuesComeOutConstant) {
  AttentionProblem problem(7, Dtype::kF32, {80, 300, 2, 2, 64, 64}, {.causal = true});
  for (int64_t row = 0; row < 300; ++row) {
    SetRow(problem.value, row, 2.5f);
  }
  for (const double value : RunAlone(problem)) {
    ASSERT_NEAR(value, 2.5, 2e-6);
  }
}

TEST(LawsTest, OneKeyGivesItsValue) {
  AttentionProblem problem(8, Dtype::kF32, {3, 1, 2, 2, 64, 64});
  const std::vector<double> output = RunAlone(problem);
  const std::vector<double> value = ToDoubles(problem.value);
  for (size_t i = 0; i < output.size(); ++i) {
    EXPECT_FLOAT_EQ(output[i], value[i % value.size()]);
  }
}

TEST(LawsTest, OrderOfKeysDoesNotMatterWithoutAMask) {
  AttentionProblem problem(9, Dtype::kF32, {40, 200, 2, 2, 64, 64});
  AttentionProblem reversed(9, Dtype::kF32, {40, 200, 2, 2, 64, 64});
  for (const auto& [from, to] :
       {std::pair(&problem.key, &reversed.key), std::pair(&problem.value, &reversed.value)}) {
    for (int64_t row = 0; row < 200; ++row) {
      std::copy_n(from->as<float>() + row * 128, 128, to->as<float>() + (199 - row) * 128);
    }
  }
  EXPECT_LE(reference::RelativeL2(RunAlone(reversed), RunAlone(problem)),
            reference::kAttentionToleranceF32);
}

TEST(LawsTest, GroupedHeadsEqualRepeatedHeadsBitForBit) {
  AttentionProblem grouped(10, Dtype::kF32, {50, 50, 4, 2, 32, 32}, {.causal = true});
  AttentionProblem repeated(10, Dtype::kF32, {50, 50, 4, 4, 32, 32}, {.causal = true});
  for (const auto& [from, to] :
       {std::pair(&grouped.key, &repeated.key), std::pair(&grouped.value, &repeated.value)}) {
    for (int64_t i = 0; i < 50 * 4; ++i) {
      std::copy_n(from->as<float>() + i / 2 * 32, 32, to->as<float>() + i * 32);
    }
  }
  RunAlone(grouped);
  RunAlone(repeated);
  EXPECT_EQ(Bytes(grouped.output), Bytes(repeated.output));
}

TEST(LawsTest, EqualTopWeightsComeInTheOrderOfTheirKeys) {
  // Each logit is a little larger than the one before, which the division by their sum hides.
  constexpr int64_t kKeys = 90;
  AttentionProblem problem(13, Dtype::kF32, {1, kKeys, 1, 1, 1, 1}, {.scale = 1.0f});
  problem.query.as<float>()[0] = 1;
  for (int64_t j = 0; j < kKeys; ++j) {
    problem.key.as<float>()[j] = static_cast<float>(j) * 0x1p-24f - 1;
  }
  std::vector<float> weights(kKeys);
  std::vector<int32_t> keys(kKeys);
  AttentionSequence sequence = problem.Sequence();
  sequence.top_weights = {kKeys, weights.data(), keys.data()};
  ThreadPool pool(1);
  Workspace workspace(pool);
  ASSERT_THAT(ScaledDotProductAttention({&sequence, 1}, workspace), IsOk());
  int64_t num_equal = 0;
  for (int64_t i = 1; i < kKeys; ++i) {
    ASSERT_GE(weights[i - 1], weights[i]);
    if (weights[i - 1] == weights[i]) {
      ASSERT_LT(keys[i - 1], keys[i]);
      ++num_equal;
    }
  }
  EXPECT_GT(num_equal, 0);
}

// Some are kept in order as they come, more are sorted in the end: both find the same. Each key is
// there three times, so that many weights are equal.
TEST(LawsTest, AnyNumberOfTopWeightsAreTheLargest) {
  constexpr int64_t kRows = 3;
  constexpr int64_t kKeys = 1200;
  AttentionProblem problem(17, Dtype::kF32, {kRows, kKeys, 1, 1, 16, 16});
  float* const key_rows = problem.key.as<float>();
  for (int64_t j = 400; j < kKeys; ++j) {
    std::copy_n(key_rows + (j - 400) * 16, 16, key_rows + j * 16);
  }
  for (const int64_t count : {1, 2, 63, 64, 65, 200, 1200, 1300}) {
    std::vector<float> weights(kRows * kKeys);
    std::vector<float> top_weights(kRows * count);
    std::vector<int32_t> top_keys(kRows * count);
    AttentionSequence sequence = problem.Sequence();
    sequence.weights = weights.data();
    sequence.top_weights = {count, top_weights.data(), top_keys.data()};
    ThreadPool pool(1);
    Workspace workspace(pool);
    ASSERT_THAT(ScaledDotProductAttention({&sequence, 1}, workspace), IsOk());
    for (int64_t row = 0; row < kRows; ++row) {
      const float* of_row = weights.data() + row * kKeys;
      std::vector<int32_t> keys(kKeys);
      std::iota(keys.begin(), keys.end(), 0);
      std::stable_sort(keys.begin(), keys.end(),
                       [of_row](int32_t a, int32_t b) { return of_row[a] > of_row[b]; });
      for (int64_t i = 0; i < count; ++i) {
        const bool is_there = i < kKeys;
        ASSERT_EQ(top_keys[row * count + i], is_there ? keys[i] : -1) << count << ", " << i;
        ASSERT_EQ(top_weights[row * count + i], is_there ? of_row[keys[i]] : 0) << count;
      }
    }
  }
}

TEST(LawsTest, StridedViewsGiveTheSameBits) {
  AttentionProblem dense(16, Dtype::kF32, {70, 70, 2, 2, 32, 32}, {.causal = true});
  RunAlone(dense);
  // One row of memory holds a token's query, key and value side by side, as a fused projection
  // leaves them.
  Tensor fused(Dtype::kF32, {70, 200});
  AttentionProblem copy(16, Dtype::kF32, {70, 70, 2, 2, 32, 32}, {.causal = true});
  AttentionSequence sequence = copy.Sequence();
  int64_t column = 0;
  for (HeadsView* view : {&sequence.query, &sequence.key, &sequence.value}) {
    for (int64_t row = 0; row < 70; ++row) {
      std::copy_n(static_cast<const float*>(view->data) + row * 64, 64,
                  fused.as<float>() + row * 200 + column);
    }
    view->data = fused.as<float>() + column;
    view->token_stride = 200;
    column += 64;
  }
  ThreadPool pool(1);
  Workspace workspace(pool);
  ASSERT_THAT(ScaledDotProductAttention({&sequence, 1}, workspace), IsOk());
  EXPECT_EQ(Bytes(copy.output), Bytes(dense.output));
}

TEST(LawsTest, StopsWhenTheCallbackSaysSo) {
  AttentionProblem problem(17, Dtype::kF32, {512, 512, 1, 1, 32, 32}, {.causal = true});
  const AttentionSequence sequence = problem.Sequence();
  ThreadPool pool(1);
  Workspace workspace(pool);
  int blocks = 0;
  EXPECT_THAT(ScaledDotProductAttention({&sequence, 1}, workspace,
                                        {[&](const RowRange&) { return ++blocks < 2; }, 128}),
              StatusIs(absl::StatusCode::kCancelled, ::testing::HasSubstr("between row blocks")));
  EXPECT_EQ(blocks, 2);
}

struct Mistake {
  const char* message;
  void (*make)(AttentionSequence&);
};

TEST(ValidateTest, NamesTheFieldTheExpectedAndTheFound) {
  const Mistake mistakes[] = {
      {"sequence 1: query num_heads: expected a multiple of key num_heads 2, found 3",
       [](AttentionSequence& s) { s.query.num_heads = 3; }},
      {"sequence 1: value num_heads: expected 2, found 1",
       [](AttentionSequence& s) { s.value.num_heads = 1; }},
      {"sequence 1: key head_dim: expected 64, found 32",
       [](AttentionSequence& s) { s.key.head_dim = 32; }},
      {"sequence 1: value tokens: expected 9, found 8",
       [](AttentionSequence& s) { s.value.tokens = 8; }},
      {"sequence 1: output tokens: expected 5, found 6",
       [](AttentionSequence& s) { s.output.tokens = 6; }},
      {"sequence 1: output head_dim: expected 48, found 64",
       [](AttentionSequence& s) { s.output.head_dim = 64; }},
      {"sequence 1: output num_heads: expected 4, found 2",
       [](AttentionSequence& s) { s.output.num_heads = 2; }},
      {"sequence 1: dtype: expected FP32 of query, key and value alike, found BF16",
       [](AttentionSequence& s) { s.key.dtype = Dtype::kBf16; }},
      {"sequence 1: scale: expected a finite FP32 number, found inf",
       [](AttentionSequence& s) { s.options.scale = std::numeric_limits<float>::infinity(); }}};
  for (const Mistake& mistake : mistakes) {
    AttentionProblem first(1, Dtype::kF32, {5, 9, 4, 2, 64, 48});
    AttentionProblem second(2, Dtype::kF32, {5, 9, 4, 2, 64, 48});
    std::vector<AttentionSequence> sequences = {first.Sequence(), second.Sequence()};
    EXPECT_THAT(Validate(sequences), IsOk());
    mistake.make(sequences[1]);
    EXPECT_THAT(Validate(sequences),
                StatusIs(absl::StatusCode::kInvalidArgument, ::testing::Eq(mistake.message)));
  }
}

TEST(ValidateTest, RefusesHeadsThatAreTooWide) {
  AttentionProblem wide(1, Dtype::kF32, {1, 1, 1, 1, 513, 8});
  const AttentionSequence sequence = wide.Sequence();
  EXPECT_THAT(Validate({&sequence, 1}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       ::testing::Eq("sequence 0: head_dim: expected 1 to 512, found 513")));
}

// The keys of a cached sequence are those of its cache.
TEST(ValidateTest, EverySequenceHasAsManyKeyHeads) {
  AttentionProblem two_heads(1, Dtype::kF32, {5, 5, 4, 2, 16, 16});
  AttentionProblem one_head(2, Dtype::kF32, {5, 5, 4, 1, 16, 16});
  const auto cached = [&](KvCache& cache) {
    AttentionSequence sequence = two_heads.Sequence();
    sequence.key.tokens = sequence.value.tokens = 0;
    sequence.cache = &cache;
    return sequence;
  };
  KvCache of_two = *KvCache::Create({2, 16, 16, KeyValueStorage::kF32});
  KvCache of_four = *KvCache::Create({4, 16, 16, KeyValueStorage::kF32});
  const auto status = [](std::vector<AttentionSequence> batch) { return Validate(batch); };
  EXPECT_THAT(status({cached(of_two), two_heads.Sequence()}), IsOk());
  const auto refused = [](int64_t sequence, int64_t expected, int64_t found) {
    return StatusIs(absl::StatusCode::kInvalidArgument,
                    absl::StrCat("sequence ", sequence, ": key num_heads: expected ", expected,
                                 ", found ", found));
  };
  EXPECT_THAT(status({cached(of_four), two_heads.Sequence()}), refused(1, 4, 2));
  EXPECT_THAT(status({two_heads.Sequence(), cached(of_four)}), refused(1, 2, 4));
  EXPECT_THAT(status({cached(of_four), cached(of_two)}), refused(1, 4, 2));
  EXPECT_THAT(status({cached(of_two), two_heads.Sequence(), one_head.Sequence()}),
              refused(2, 2, 1));
}

}  // namespace
}  // namespace attention
