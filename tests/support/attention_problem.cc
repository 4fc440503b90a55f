#include "tests/support/attention_problem.h"

#include "core/tensor/seeded.h"
#include "tests/support/golden.h"
#include "tests/support/matchers.h"

namespace attention {

AttentionProblem::AttentionProblem(uint64_t seed, Dtype dtype, const reference::Extents& e,
                                   const AttentionOptions& o)
    : extents(e),
      options(o),
      query(SeededTensor(3 * seed, dtype, {e.query_len, e.num_heads, e.head_dim})),
      key(SeededTensor(3 * seed + 1, dtype, {e.kv_len, e.num_kv_heads, e.head_dim})),
      value(SeededTensor(3 * seed + 2, dtype, {e.kv_len, e.num_kv_heads, e.value_head_dim})),
      output(dtype, {e.query_len, e.num_heads, e.value_head_dim}) {}

AttentionSequence AttentionProblem::Sequence() {
  const auto view = [](const Tensor& t) {
    return DenseHeads(t.data(), t.dtype(), t.shape()[0], t.shape()[1], t.shape()[2]);
  };
  return {.query = view(query),
          .key = view(key),
          .value = view(value),
          .output = DenseHeads(output.data(), output.dtype(), output.shape()[0], output.shape()[1],
                               output.shape()[2]),
          .options = options};
}

reference::Options ReferenceOptions(const AttentionOptions& options) {
  reference::Options result{.causal = options.causal, .query_offset = options.query_offset};
  if (options.scale.has_value()) {
    result.scale = *options.scale;
  }
  return result;
}

reference::AttentionResult AttentionProblem::Reference() const {
  return reference::Attention(extents, ToDoubles(query), ToDoubles(key), ToDoubles(value),
                              ReferenceOptions(options));
}

std::vector<double> AttentionProblem::Expected() const { return Reference().output; }
std::vector<double> AttentionProblem::ExpectedWeights() const { return Reference().weights; }

std::vector<double> RunAlone(AttentionProblem& problem, int num_threads) {
  ThreadPool pool(num_threads);
  Workspace workspace(pool);
  const AttentionSequence sequence = problem.Sequence();
  EXPECT_THAT(ScaledDotProductAttention({&sequence, 1}, workspace), IsOk());
  return ToDoubles(problem.output);
}

std::vector<uint8_t> Bytes(const Tensor& tensor) {
  const auto* first = static_cast<const uint8_t*>(tensor.data());
  return {first, first + tensor.size_bytes()};
}

}  // namespace attention
