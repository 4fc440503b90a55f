#include "tests/support/attention_problem.h"

#include <cmath>
#include <optional>
#include <span>

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
      output(dtype, {e.query_len, e.num_heads, e.value_head_dim}),
      seed_(seed) {}

void AttentionProblem::Add(const Extras& extras) {
  const auto seeded = [this](uint64_t salt, const Shape& shape) {
    return SeededTensor(1000 * seed_ + salt, Dtype::kF32, shape);
  };
  const auto span = [](Tensor& tensor) {
    return std::span<const float>(tensor.as<float>(), tensor.num_elements());
  };
  const int64_t scores = extents.query_len * extents.kv_len;
  if (extras.bias || extras.shared_bias) {
    bias_ = seeded(1, {extras.bias ? extents.num_heads : 1, extents.query_len, extents.kv_len});
    options.bias = {bias_.as<float>(), extras.bias ? scores : 0, extents.kv_len};
  }
  if (extras.mask) {
    const Tensor values = seeded(2, {extents.num_heads, extents.query_len, extents.kv_len});
    for (int64_t i = 0; i < values.num_elements(); ++i) {
      mask_.push_back(values.as<float>()[i] < 0.7f ? 1 : 0);
    }
    options.mask = {mask_.data(), scores, extents.kv_len};
  }
  if (extras.alibi) {
    alibi_ = Tensor(Dtype::kF32, {extents.num_heads});
    for (int64_t h = 0; h < extents.num_heads; ++h) {
      alibi_.as<float>()[h] = std::exp2(-8.0f * (h + 1) / extents.num_heads);
    }
    options.alibi_slopes = span(alibi_);
  }
  if (extras.sinks) {
    sinks_ = seeded(3, {extents.num_heads});
    options.sinks = span(sinks_);
  }
  if (extras.query_norm) {
    query_norm_ = seeded(4, {extents.head_dim});
    options.query_norm = {.weight = query_norm_.as<float>(), .epsilon = 1e-5f};
  }
  if (extras.key_norm) {
    key_norm_ = seeded(5, {extents.head_dim});
    options.key_norm = {.weight = key_norm_.as<float>()};
  }
  global_tokens_ = extras.global_tokens;
  options.global_tokens = global_tokens_;
}

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

namespace {

std::vector<double> Doubles(std::span<const float> values) {
  return {values.begin(), values.end()};
}

/// All of a dense [num_heads or 1, query_len, kv_len] view.
template <typename To, typename T>
std::vector<To> Dense(const ScoreView<T>& view, const reference::Extents& e) {
  if (view.data == nullptr) {
    return {};
  }
  const int64_t heads = view.head_stride == 0 ? 1 : e.num_heads;
  return {view.data, view.data + heads * e.query_len * e.kv_len};
}

std::optional<reference::RmsNorm> ReferenceNorm(const std::optional<RmsNorm>& norm,
                                                int64_t head_dim) {
  if (!norm.has_value()) {
    return std::nullopt;
  }
  const size_t weights = norm->weight == nullptr ? 0 : head_dim;
  return reference::RmsNorm{Doubles({norm->weight, weights}), norm->epsilon};
}

}  // namespace

reference::Options ReferenceOptions(const AttentionOptions& options,
                                    const reference::Extents& extents) {
  reference::Options result{.causal = options.causal, .query_offset = options.query_offset};
  if (options.scale.has_value()) {
    result.scale = *options.scale;
  }
  static_assert(std::size(kVisibilityNumbers) == std::size(reference::kVisibilityNumbers));
  for (size_t i = 0; i < std::size(kVisibilityNumbers); ++i) {
    result.*reference::kVisibilityNumbers[i].value = options.*kVisibilityNumbers[i].value;
  }
  result.global_tokens.assign(options.global_tokens.begin(), options.global_tokens.end());
  result.mask = Dense<uint8_t>(options.mask, extents);
  result.softcap = options.softcap;
  result.alibi_slopes = Doubles(options.alibi_slopes);
  result.bias = Dense<double>(options.bias, extents);
  result.sinks = Doubles(options.sinks);
  result.query_norm = ReferenceNorm(options.query_norm, extents.head_dim);
  result.key_norm = ReferenceNorm(options.key_norm, extents.head_dim);
  if (options.rotary.has_value()) {
    const Rotary& r = *options.rotary;
    result.rotary = reference::Rotary{r.dim,
                                      r.base,
                                      r.interleaved,
                                      static_cast<reference::Rotary::Scaling>(r.scaling),
                                      r.factor,
                                      r.low_freq_factor,
                                      r.high_freq_factor,
                                      r.original_max_positions,
                                      r.position_offset,
                                      {},
                                      r.magnitude};
    if (r.frequencies != nullptr) {
      const int64_t dim = r.dim == 0 ? extents.head_dim : r.dim;
      result.rotary->frequencies.assign(r.frequencies, r.frequencies + dim / 2);
    }
  }
  result.similarity = static_cast<reference::Similarity>(options.similarity);
  result.bandwidth = options.bandwidth;
  return result;
}

reference::AttentionResult AttentionProblem::Reference() const {
  return reference::Attention(extents, ToDoubles(query), ToDoubles(key), ToDoubles(value),
                              ReferenceOptions(options, extents));
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
