// Sequences of a few keys. The rows and keys of a product are then rounded up to other numbers than
// those of long sequences, and packed memory is filled with zeros only as far as products read it.
#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/attention/attention.h"
#include "core/kernels/attention/attention_plan.h"
#include "gtest/gtest.h"
#include "tests/support/attention_problem.h"
#include "tests/support/matchers.h"
#include "tests/support/slowdown.h"

namespace attention {
namespace {

constexpr int64_t kHeads = 12;
constexpr int64_t kWidth = 24;  // no multiple of the packed width

/// Every number up to a key block and one more; under a sanitizer every eighth.
constexpr int64_t kMostKeys = kKeyBlock + 1;
constexpr int64_t kKeyStep = kSlowdown > 1 ? 8 : 1;

constexpr Similarity kSimilarities[] = {Similarity::kDotProduct, Similarity::kGaussian,
                                        Similarity::kBox, Similarity::kTriangular,
                                        Similarity::kLinear};

AttentionOptions OptionsOf(Similarity similarity) {
  return {.similarity = similarity, .bandwidth = IsRegression(similarity) ? 7.0 : 0.0};
}

class ShortSequencesTest : public ::testing::TestWithParam<Dtype> {
 protected:
  /// Problems of `rows` rows and those numbers of keys, or of as many rows as keys when `rows` is
  /// 0. `kv_heads` of the query heads have keys of their own.
  void MakeProblems(int64_t rows, int64_t kv_heads, const AttentionOptions& options) {
    problems_.clear();
    for (int64_t keys = 1; keys <= kMostKeys; keys += kKeyStep) {
      problems_.push_back(std::make_unique<AttentionProblem>(
          keys, GetParam(),
          reference::Extents{rows > 0 ? rows : keys, keys, kHeads, kv_heads, kWidth, kWidth},
          options));
    }
  }

  /// Computes all problems in one call, where a thread packs a head and attends to it, or each in
  /// its own, where the threads pack together.
  std::vector<std::vector<uint8_t>> Compute(Workspace& workspace, bool together) {
    std::vector<AttentionSequence> batch;
    for (const auto& problem : problems_) {
      batch.push_back(problem->Sequence());
    }
    const size_t at_once = together ? batch.size() : 1;
    for (size_t i = 0; i < batch.size(); i += at_once) {
      EXPECT_THAT(ScaledDotProductAttention({&batch[i], at_once}, workspace), IsOk());
    }
    std::vector<std::vector<uint8_t>> outputs;
    for (const auto& problem : problems_) {
      outputs.push_back(Bytes(problem->output));
    }
    return outputs;
  }

  std::vector<std::unique_ptr<AttentionProblem>> problems_;
};

/// Leaves NaN wherever attention of short sequences finds memory.
void FillWithNaN(Workspace& workspace, Dtype dtype, int64_t kv_heads) {
  constexpr size_t kBytes = size_t{1} << 20;
  for (int worker = 0; worker < workspace.pool().num_threads(); ++worker) {
    std::fill_n(workspace.Scratch(worker, kBytes), kBytes, std::byte{0xff});
  }
  // Packed together by all threads.
  AttentionProblem nan(1, dtype, {65, 600, kHeads, kv_heads, kWidth, kWidth});
  for (Tensor* tensor : {&nan.query, &nan.key, &nan.value}) {
    std::fill_n(static_cast<uint8_t*>(tensor->data()), Bytes(*tensor).size(), uint8_t{0xff});
  }
  const AttentionSequence sequence = nan.Sequence();
  ASSERT_THAT(ScaledDotProductAttention({&sequence, 1}, workspace), IsOk());
}

TEST_P(ShortSequencesTest, WhatTheMemoryHeldDoesNotMatter) {
  for (const Similarity similarity : kSimilarities) {
    for (const int64_t kv_heads : {kHeads, kHeads / 4}) {
      for (const int64_t rows : {0, 1, 3, 12, 70}) {
        for (const bool together : {true, false}) {
          MakeProblems(rows, kv_heads, OptionsOf(similarity));
          ThreadPool pool(3);  // of which each has fewer than six heads of one sequence
          Workspace fresh(pool);
          const auto expected = Compute(fresh, together);
          Workspace used(pool);
          FillWithNaN(used, GetParam(), kv_heads);
          EXPECT_EQ(Compute(used, together), expected)
              << Name(similarity) << ", " << rows << " rows";
        }
      }
    }
  }
}

TEST_P(ShortSequencesTest, EveryLengthAgreesWithTheReference) {
  const double tolerance = GetParam() == Dtype::kF32 ? 2e-6 : 2e-2;
  for (const Similarity similarity : kSimilarities) {
    for (const int64_t rows : {0, 12}) {
      MakeProblems(rows, kHeads, OptionsOf(similarity));
      for (const auto& problem : problems_) {
        EXPECT_LE(reference::RelativeL2(RunAlone(*problem), problem->Expected()), tolerance)
            << Name(similarity) << ", " << problem->extents.kv_len << " keys";
      }
    }
  }
}

// The first rows of a causal sequence have the bits of a sequence that ends with them.
TEST_P(ShortSequencesTest, LaterTokensOfACausalSequenceDoNotMatter) {
  AttentionProblem whole(7, GetParam(), {kMostKeys, kMostKeys, kHeads, kHeads, kWidth, kWidth},
                         {.causal = true});
  RunAlone(whole);
  const std::vector<uint8_t> rows = Bytes(whole.output);
  for (int64_t length = 1; length < kMostKeys; ++length) {
    AttentionProblem first(7, GetParam(), {length, length, kHeads, kHeads, kWidth, kWidth},
                           {.causal = true});
    const auto copy = [](const Tensor& from, Tensor& to) {
      const std::vector<uint8_t> bytes = Bytes(from);
      std::copy_n(bytes.begin(), Bytes(to).size(), static_cast<uint8_t*>(to.data()));
    };
    copy(whole.query, first.query);
    copy(whole.key, first.key);
    copy(whole.value, first.value);
    RunAlone(first);
    const std::vector<uint8_t> actual = Bytes(first.output);
    EXPECT_TRUE(std::equal(actual.begin(), actual.end(), rows.begin())) << length << " tokens";
  }
}

// A value that is not finite is no element of other rows, also where it is the last of few keys.
TEST_P(ShortSequencesTest, AHiddenValueThatIsNotFiniteReachesNoRow) {
  for (const int64_t keys : {2, 5, 12, 16, 17, 33, 48}) {
    const auto output = [&](double last) {
      AttentionProblem problem(keys, GetParam(), {keys - 1, keys, kHeads, kHeads, kWidth, kWidth},
                               {.causal = true, .query_offset = 0});
      const int64_t first = (keys - 1) * kHeads * kWidth;
      for (int64_t i = first; i < keys * kHeads * kWidth; ++i) {
        if (GetParam() == Dtype::kF32) {
          problem.value.as<float>()[i] = static_cast<float>(last);
        } else {
          problem.value.as<Bf16>()[i] = ToBf16(static_cast<float>(last));
        }
      }
      RunAlone(problem);
      return Bytes(problem.output);
    };
    EXPECT_EQ(output(std::numeric_limits<double>::quiet_NaN()), output(0)) << keys << " keys";
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, ShortSequencesTest, ::testing::Values(Dtype::kF32, Dtype::kBf16),
                         [](const auto& test) {
                           return std::string(test.param == Dtype::kF32 ? "F32" : "Bf16");
                         });

}  // namespace
}  // namespace attention
