// More keys than a key section has: threads share one query tile, and no bit shows it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "core/kernels/attention/attention_tile.h"
#include "gtest/gtest.h"
#include "tests/support/attention_problem.h"
#include "tests/support/golden.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

constexpr int64_t kHeads = 4;
constexpr int64_t kKeyValueHeads = 2;
constexpr int64_t kKeyDim = 20;
constexpr int64_t kValueDim = 24;
/// Two whole sections, and one with a key tile and a part of one.
constexpr int64_t kKeys = 2 * kKeySection + kKeyTile + 70;

struct SectionKind {
  std::string name;
  int64_t rows;
  AttentionOptions options;
  Extras extras = {};
};

void PrintTo(const SectionKind& kind, std::ostream* out) { *out << kind.name; }

AttentionOptions Regression(Similarity similarity, double bandwidth) {
  return {.similarity = similarity, .bandwidth = bandwidth};
}

const SectionKind kSectionKinds[] = {
    {"OneRow", 1, {}},
    {"FewRows", 3, {.causal = true}},
    {"ManyRows", 70, {.causal = true}},
    {"RowsOnBothSidesOfASection", 90, {.causal = true, .query_offset = 2 * kKeySection - 40}},
    {"Window", 80, {.causal = true, .window = kKeySection + 30}},
    {"WindowInTheLastSection", 2, {.causal = true, .window = 200}},
    {"WindowDilated", 5, {.causal = true, .window = 4000, .window_dilation = 3000}},
    {"PrefixThenAWindow", 66, {.causal = true, .window = 40, .prefix = 9}},
    {"Mask", 4, {}, {.mask = true}},
    {"Bias", 33, {.causal = true}, {.bias = true}},
    {"LargeScale", 5, {.scale = 3e6F}},
    {"Everything",
     40,
     {.causal = true, .softcap = 30, .rotary = Rotary{.dim = 16}},
     {.shared_bias = true, .mask = true, .alibi = true, .sinks = true, .key_norm = true}},
    {"Gaussian", 9, Regression(Similarity::kGaussian, 20)},
    {"Box", 9, Regression(Similarity::kBox, 6)},
    {"Triangular", 70, Regression(Similarity::kTriangular, 8)},
};

/// Everything that a sequence can be asked for.
struct Answer {
  std::vector<uint8_t> output, weights, log_sum_exp;

  bool operator==(const Answer&) const = default;
};

/// A problem, and memory for its answer.
struct Asked {
  Asked(uint64_t seed, Dtype dtype, const SectionKind& kind)
      : problem(seed, dtype, {kind.rows, kKeys, kHeads, kKeyValueHeads, kKeyDim, kValueDim},
                kind.options),
        weights(Dtype::kF32, {kHeads, kind.rows, kKeys}),
        log_sum_exp(Dtype::kF32, {kHeads, kind.rows}) {
    problem.Add(kind.extras);
  }

  AttentionSequence Sequence() {
    AttentionSequence sequence = problem.Sequence();
    sequence.weights = weights.as<float>();
    sequence.log_sum_exp = log_sum_exp.as<float>();
    return sequence;
  }
  Answer Result() const { return {Bytes(problem.output), Bytes(weights), Bytes(log_sum_exp)}; }

  AttentionProblem problem;
  Tensor weights, log_sum_exp;
};

/// Computes the problem on `threads` threads, between `mates` sequences of another problem.
Answer Compute(Dtype dtype, const SectionKind& kind, int threads, int mates = 0) {
  Asked asked(5, dtype, kind);
  std::vector<AttentionSequence> sequences(mates + 1);
  std::vector<Tensor> outputs;
  std::optional<AttentionProblem> mate;
  if (mates > 0) {
    mate.emplace(100, dtype, asked.problem.extents, kind.options);
    mate->Add(kind.extras);
  }
  for (AttentionSequence& sequence : sequences) {
    const bool is_asked = &sequence == &sequences[mates / 2];
    sequence = is_asked ? asked.Sequence() : mate->Sequence();
    if (!is_asked) {
      outputs.emplace_back(dtype, Shape{kind.rows, kHeads, kValueDim});
      sequence.output = DenseHeads(outputs.back().data(), dtype, kind.rows, kHeads, kValueDim);
    }
  }
  ThreadPool pool(threads);
  Workspace workspace(pool);
  EXPECT_THAT(ScaledDotProductAttention(sequences, workspace), IsOk());
  return asked.Result();
}

class KeySectionsTest : public ::testing::TestWithParam<std::tuple<Dtype, SectionKind>> {
 protected:
  Dtype dtype() const { return std::get<0>(GetParam()); }
  const SectionKind& kind() const { return std::get<1>(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(All, KeySectionsTest,
                         ::testing::Combine(::testing::Values(Dtype::kF32, Dtype::kBf16),
                                            ::testing::ValuesIn(kSectionKinds)),
                         [](const auto& p) {
                           return std::string(Name(std::get<0>(p.param))) + "_" +
                                  std::get<1>(p.param).name;
                         });

TEST_P(KeySectionsTest, ThreadsAndMatesDoNotMatter) {
  const Answer expected = Compute(dtype(), kind(), 1);
  for (const int threads : {2, 5}) {
    EXPECT_TRUE(Compute(dtype(), kind(), threads) == expected) << threads << " threads";
  }
  EXPECT_TRUE(Compute(dtype(), kind(), 3, 1) == expected) << "3 threads, 1 mate";
  EXPECT_TRUE(Compute(dtype(), kind(), 2, 8) == expected) << "8 mates: no tile is divided";
}

TEST_P(KeySectionsTest, RowsAloneHaveTheBitsOfTheirTile) {
  Asked whole(5, dtype(), kind());
  ThreadPool pool(2);
  Workspace workspace(pool);
  const AttentionSequence sequence = whole.Sequence();
  ASSERT_THAT(ScaledDotProductAttention({&sequence, 1}, workspace), IsOk());
  const std::vector<uint8_t> expected = Bytes(whole.problem.output);
  const int64_t row_bytes = std::ssize(expected) / kind().rows;
  for (int64_t row = 0; row < kind().rows; row += 13) {
    AttentionSequence one = whole.problem.Sequence();
    one.query = SliceTokens(one.query, row, 1);
    Tensor output(dtype(), {1, kHeads, kValueDim});
    one.output = DenseHeads(output.data(), dtype(), 1, kHeads, kValueDim);
    one.options.query_offset = one.options.query_offset.value_or(kKeys - kind().rows) + row;
    const auto skip = [row](auto& view) {
      view.data = view.data == nullptr ? nullptr : view.Row(0, row);
    };
    skip(one.options.bias);
    skip(one.options.mask);
    ASSERT_THAT(ScaledDotProductAttention({&one, 1}, workspace), IsOk());
    EXPECT_TRUE(std::equal(expected.begin() + row * row_bytes,
                           expected.begin() + (row + 1) * row_bytes, Bytes(output).begin()))
        << "row " << row;
  }
}

TEST_P(KeySectionsTest, AgreesWithTheReference) {
  Asked asked(5, Dtype::kF32, kind());
  ThreadPool pool(4);
  Workspace workspace(pool);
  const AttentionSequence sequence = asked.Sequence();
  ASSERT_THAT(ScaledDotProductAttention({&sequence, 1}, workspace), IsOk());
  const double tolerance = kind().name == "LargeScale" ? 1e-5 : reference::kAttentionToleranceF32;
  EXPECT_LE(reference::RelativeL2(ToDoubles(asked.problem.output), asked.problem.Expected()),
            tolerance);
}

/// A sequence of which the mask hides all keys from row 1, and everything that it can be asked for.
struct BlankRow {
  BlankRow(Dtype dtype, int64_t num_rows)
      : rows(num_rows),
        asked(9, dtype, {"BlankRow", num_rows, {}, {.sinks = true}}),
        mask(num_rows * kKeys, 1),
        top_weights(kHeads * num_rows * kTopKeys),
        top_keys(kHeads * num_rows * kTopKeys) {
    std::fill_n(mask.begin() + kKeys, kKeys, 0);
    asked.problem.options.mask = {mask.data(), 0, kKeys};
  }

  /// Computes it in memory that is full of NaN.
  Answer Compute(int threads) {
    ThreadPool pool(threads);
    Workspace workspace(pool);
    constexpr size_t kBytes = size_t{8} << 20;
    for (int worker = 0; worker < threads; ++worker) {
      std::fill_n(workspace.Scratch(worker, kBytes), kBytes, std::byte{0xff});
    }
    AttentionSequence sequence = asked.Sequence();
    sequence.top_weights = {kTopKeys, top_weights.data(), top_keys.data()};
    EXPECT_THAT(ScaledDotProductAttention({&sequence, 1}, workspace), IsOk());
    return asked.Result();
  }

  static constexpr int64_t kTopKeys = 3;
  int64_t rows;
  Asked asked;
  std::vector<uint8_t> mask;
  std::vector<float> top_weights;
  std::vector<int32_t> top_keys;
};

// A weight of 0 times infinity is NaN, wherever the key with a weight stands.
TEST(KeySectionsHostileTest, AValueThatIsNotFiniteReachesItsRowFromEverySection) {
  for (const Similarity similarity :
       {Similarity::kBox, Similarity::kTriangular, Similarity::kGaussian}) {
    for (const int64_t near : {int64_t{0}, 2 * kKeySection + 3}) {
      for (const int64_t bad : {int64_t{1}, kKeySection, 2 * kKeySection + 9}) {
        AttentionProblem problem(11, Dtype::kF32, {3, kKeys, 1, 1, 1, 1},
                                 Regression(similarity, 1));
        std::fill_n(problem.query.as<float>(), 3, 0.0F);
        std::fill_n(problem.key.as<float>(), kKeys, 100.0F);
        std::fill_n(problem.value.as<float>(), kKeys, 1.0F);
        problem.key.as<float>()[near] = 0;
        EXPECT_EQ(RunAlone(problem), std::vector<double>(3, 1.0)) << near;
        problem.value.as<float>()[bad] = std::numeric_limits<float>::infinity();
        for (const int threads : {1, 3}) {
          ThreadPool pool(threads);
          Workspace workspace(pool);
          const AttentionSequence sequence = problem.Sequence();
          ASSERT_THAT(ScaledDotProductAttention({&sequence, 1}, workspace), IsOk());
          for (const double value : ToDoubles(problem.output)) {
            EXPECT_TRUE(std::isnan(value)) << Name(similarity) << ", near " << near << ", bad "
                                           << bad << ", " << threads << " threads";
          }
        }
      }
    }
  }
}

// What a row attends to no key of is decided by no memory that an earlier call has left.
TEST(KeySectionsHostileTest, ARowWithoutKeysIsZeroWhateverTheMemoryHeld) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBf16}) {
    for (const int64_t rows : {3, 70}) {
      BlankRow one(dtype, rows);
      BlankRow three(dtype, rows);
      EXPECT_TRUE(one.Compute(1) == three.Compute(3)) << rows;
      EXPECT_EQ(one.top_weights, three.top_weights);
      EXPECT_EQ(one.top_keys, three.top_keys);
      for (int64_t head = 0; head < kHeads; ++head) {
        const int64_t row = head * rows + 1;
        const float* weights = one.asked.weights.as<float>() + row * kKeys;
        EXPECT_EQ(std::count(weights, weights + kKeys, 0.0f), kKeys) << rows << ", head " << head;
        EXPECT_EQ(one.asked.log_sum_exp.as<float>()[row], -std::numeric_limits<float>::infinity());
        for (int64_t i = row * BlankRow::kTopKeys; i < (row + 1) * BlankRow::kTopKeys; ++i) {
          EXPECT_EQ(one.top_weights[i], 0);
          EXPECT_EQ(one.top_keys[i], -1);
        }
      }
      const std::vector<double> output = ToDoubles(one.asked.problem.output);
      EXPECT_EQ(std::count(output.begin() + kHeads * kValueDim,
                           output.begin() + 2 * kHeads * kValueDim, 0.0),
                kHeads * kValueDim);
    }
  }
}

// A key of NaN or infinity in one section spoils the rows that attend to it, and no others.
TEST(KeySectionsHostileTest, ValuesThatAreNotFiniteStayInTheirRows) {
  constexpr int64_t kPoisoned = 2 * kKeySection + 5;
  constexpr int64_t kWidth = kKeyValueHeads * kValueDim;
  constexpr int64_t kRowFloats = kHeads * kValueDim;
  for (const int64_t rows : {90, 20, 2}) {
    const int64_t first = rows / 2;  // the first row that attends to the poisoned key
    const SectionKind kind{"Causal", rows, {.causal = true, .query_offset = kPoisoned - first}};
    const Answer clean = Compute(Dtype::kF32, kind, 1);
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      Asked asked(5, Dtype::kF32, kind);
      std::fill_n(asked.problem.value.as<float>() + kPoisoned * kWidth, kWidth, bad);
      ThreadPool pool(3);
      Workspace workspace(pool);
      const AttentionSequence sequence = asked.Sequence();
      ASSERT_THAT(ScaledDotProductAttention({&sequence, 1}, workspace), IsOk());
      const std::vector<uint8_t> output = Bytes(asked.problem.output);
      const int64_t clean_bytes = first * kRowFloats * int64_t{sizeof(float)};
      EXPECT_TRUE(std::equal(output.begin(), output.begin() + clean_bytes, clean.output.begin()));
      for (int64_t i = first * kRowFloats; i < rows * kRowFloats; ++i) {
        ASSERT_FALSE(std::isfinite(asked.problem.output.as<float>()[i])) << i << " of " << rows;
      }
    }
  }
}

// Few rows pack their own keys: whole key blocks, of which a window hides a part.
TEST(KeySectionsHostileTest, HiddenKeysThatAreNotFiniteChangeNoBitOfFewRows) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const SectionKind kind{
      "Window", 3, {.causal = true, .query_offset = 2 * kKeySection + 10, .window = 100}};
  const Answer clean = Compute(Dtype::kF32, kind, 1);
  for (const int threads : {1, 3}) {
    Asked asked(5, Dtype::kF32, kind);
    for (Tensor* const tensor : {&asked.problem.key, &asked.problem.value}) {
      const int64_t width = tensor->num_elements() / kKeys;
      const int64_t first_visible = 2 * kKeySection + 10 - 99;
      const int64_t end_visible = 2 * kKeySection + 10 + 3;
      std::fill_n(tensor->as<float>(), first_visible * width, nan);
      std::fill_n(tensor->as<float>() + end_visible * width, (kKeys - end_visible) * width, nan);
    }
    ThreadPool pool(threads);
    Workspace workspace(pool);
    const AttentionSequence sequence = asked.Sequence();
    ASSERT_THAT(ScaledDotProductAttention({&sequence, 1}, workspace), IsOk());
    EXPECT_TRUE(asked.Result() == clean) << threads << " threads";
  }
}

}  // namespace
}  // namespace attention
