// Partial answers over disjoint key sets make the answer over all keys.
#include "core/attention/merge.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/attention_problem.h"
#include "tests/support/golden.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Part {
  std::vector<float> output, log_sum_exp;
};

/// Attention over keys [first, first + count) as a server that has no others would compute it.
Part AttendTo(AttentionProblem& problem, int64_t first, int64_t count) {
  const reference::Extents& e = problem.extents;
  Part part{std::vector<float>(e.query_len * e.num_heads * e.value_head_dim),
            std::vector<float>(e.num_heads * e.query_len)};
  AttentionSequence s = problem.Sequence();
  s.options.sinks = {};
  // Positions are counted from the part's first key.
  s.options.query_offset = e.kv_len - e.query_len - first;
  s.key = SliceTokens(s.key, first, count);
  s.value = SliceTokens(s.value, first, count);
  s.output = DenseHeads(static_cast<void*>(part.output.data()), Dtype::kF32, e.query_len,
                        e.num_heads, e.value_head_dim);
  s.log_sum_exp = part.log_sum_exp.data();
  ThreadPool pool(2);
  Workspace workspace(pool);
  EXPECT_THAT(ScaledDotProductAttention({&s, 1}, workspace), IsOk());
  return part;
}

std::vector<double> Merged(AttentionProblem& problem, const std::vector<int64_t>& cuts,
                           std::vector<float>* log_sum_exp = nullptr) {
  std::vector<Part> parts;
  std::vector<PartialResult> views;
  int64_t first = 0;
  for (const int64_t count : cuts) {
    parts.push_back(AttendTo(problem, first, count));
    first += count;
  }
  for (const Part& part : parts) {
    views.push_back({part.output.data(), part.log_sum_exp.data()});
  }
  const reference::Extents& e = problem.extents;
  std::vector<float> output(parts.front().output.size());
  std::vector<float> lse(parts.front().log_sum_exp.size());
  MergePartials({e.query_len, e.num_heads, e.value_head_dim}, views, problem.options.sinks,
                {output.data(), lse.data()});
  if (log_sum_exp != nullptr) {
    *log_sum_exp = lse;
  }
  return {output.begin(), output.end()};
}

TEST(MergeTest, PartsMakeTheWhole) {
  const AttentionOptions kinds[] = {
      {},
      {.causal = true},
      {.causal = true, .window = 130},
      {.softcap = 5},
      {.similarity = Similarity::kGaussian, .bandwidth = 20},
      {.similarity = Similarity::kTriangular, .bandwidth = 8},
      {.causal = true, .similarity = Similarity::kLinear},
  };
  for (const AttentionOptions& options : kinds) {
    AttentionProblem problem(1, Dtype::kF32, {90, 600, 4, 2, 16, 24}, options);
    std::vector<float> log_sum_exp;
    EXPECT_LE(reference::RelativeL2(Merged(problem, {1, 299, 200, 100}, &log_sum_exp),
                                    problem.Expected()),
              reference::kAttentionToleranceF32)
        << static_cast<int>(options.similarity);
    const std::vector<double> expected = problem.Reference().log_sum_exp;
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(log_sum_exp[i], expected[i], 3e-6);
    }
  }
}

TEST(MergeTest, SinksAreAddedOnce) {
  AttentionProblem problem(2, Dtype::kF32, {50, 300, 4, 2, 32, 32}, {.causal = true});
  problem.Add({.sinks = true});
  EXPECT_LE(reference::RelativeL2(Merged(problem, {100, 100, 100}), problem.Expected()),
            reference::kAttentionToleranceF32);
}

TEST(MergeTest, PartsWithoutVisibleKeysHaveNoSay) {
  const float lse[] = {-kInfinity, 2, -kInfinity, -kInfinity};
  const float nan = std::nanf("");
  const float outputs[] = {nan, 7, nan, nan};
  float output[2] = {};
  float merged_lse[2] = {};
  // Two parts of one head and two rows: row 0 has keys in the second part only, row 1 none.
  const PartialResult parts[] = {{outputs + 2, lse + 2}, {outputs + 1, lse + 1}};
  MergePartials({2, 1, 1}, parts, {}, {output, merged_lse});
  EXPECT_EQ(output[0], 7);
  EXPECT_EQ(merged_lse[0], 2);
  EXPECT_EQ(output[1], 0);
  EXPECT_EQ(merged_lse[1], -kInfinity);
}

TEST(MergeTest, NaNIsNotLost) {
  const float lse[] = {std::nanf(""), -kInfinity};
  const float outputs[] = {std::nanf(""), 0};
  float output = 0;
  const PartialResult parts[] = {{outputs, lse}, {outputs + 1, lse + 1}};
  MergePartials({1, 1, 1}, parts, {}, {&output, nullptr});
  EXPECT_TRUE(std::isnan(output));
}

TEST(MergeTest, LogitsFarApartDoNotOverflow) {
  const float lse[] = {-1e30f, 1e30f};
  const float outputs[] = {3, 5};
  float output = 0;
  const PartialResult parts[] = {{outputs, lse}, {outputs + 1, lse + 1}};
  MergePartials({1, 1, 1}, parts, {}, {&output, nullptr});
  EXPECT_EQ(output, 5);
}

}  // namespace
}  // namespace attention
