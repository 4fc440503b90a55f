// What the reference answers to a random call.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "core/kernels/onednn/isa.h"
#include "tests/core/fuzz/fuzz_problem.h"
#include "tests/core/fuzz/fuzz_products.h"
#include "tests/core/fuzz/fuzz_rounding.h"
#include "tests/support/attention_problem.h"
#include "tests/support/golden.h"

namespace attention {

/// What the reference hides by a mask: it knows no bias of -infinity beside numbers that are not
/// finite.
reference::Options FuzzProblem::OptionsOfReference() const {
  reference::Options options = ReferenceOptions(dense_options_, extents_);
  if (case_.bias == 0 || case_.bias_kind != 1) {
    return options;
  }
  const int64_t scores = extents_.query_len * extents_.kv_len;
  std::vector<uint8_t> mask(extents_.num_heads * scores, 1);
  const auto of_head = [&](const auto& tensor, size_t i) {
    return tensor[tensor.size() == mask.size() ? i : i % scores];
  };
  for (size_t i = 0; i < mask.size(); ++i) {
    const bool is_visible = options.mask.empty() || of_head(options.mask, i) != 0;
    mask[i] = is_visible && std::isfinite(of_head(options.bias, i)) ? 1 : 0;
  }
  options.mask = mask;
  return options;
}

/// The same rules as a mask alone, which shows every row the layer's extra keys.
reference::Options FuzzProblem::WithExtraKeys(const reference::Options& options) const {
  const reference::Extents& e = extents_;
  reference::Options extended{.scale = options.scale,
                              .query_offset = options.query_offset.value_or(e.kv_len - e.query_len),
                              .softcap = options.softcap,
                              .alibi_slopes = options.alibi_slopes,
                              .sinks = options.sinks,
                              .query_norm = options.query_norm,
                              .key_norm = options.key_norm,
                              .rotary = options.rotary,
                              .similarity = options.similarity,
                              .bandwidth = options.bandwidth};
  for (int64_t row = 0; row < e.num_heads * e.query_len; ++row) {
    for (int64_t key = 0; key < num_keys(); ++key) {
      const bool is_visible = key >= e.kv_len || reference::AttendsTo(e, options, row / e.query_len,
                                                                      row % e.query_len, key);
      extended.mask.push_back(is_visible ? 1 : 0);
    }
  }
  for (auto bias = options.bias.begin(); bias != options.bias.end(); bias += e.kv_len) {
    extended.bias.insert(extended.bias.end(), bias, bias + e.kv_len);
    extended.bias.resize(extended.bias.size() + NumExtraKeys(case_));
  }
  return extended;
}

/// The reference's answer to keys, values and queries as they are rounded before the products.
reference::AttentionResult FuzzProblem::Reference(reference::Options options) const {
  reference::Extents e = extents_;
  e.kv_len = num_keys();
  FuzzRows rows{ToDoubles(dense_query_), ToDoubles(dense_key_), ToDoubles(dense_value_)};
  std::optional<FuzzWeights> weights;
  if (case_.layer != 0) {
    weights.emplace(case_);
    Project(*weights, rows);
    AppendExtraKeys(*weights, rows);
  }
  if (storage() != KeyValueStorage::kF32) {
    rows.query = reference::PreparedRows(rows.query, e.num_heads, e.head_dim, options.query_norm,
                                         options.rotary,
                                         options.query_offset.value_or(e.kv_len - e.query_len));
    rows.key = reference::PreparedRows(rows.key, e.num_kv_heads, e.head_dim, options.key_norm,
                                       options.rotary, 0);
    options.query_norm = options.key_norm = std::nullopt;
    options.rotary = std::nullopt;
    RoundRows(storage(), e.head_dim, 1, rows.key);
    RoundRows(storage(), e.value_head_dim, 1, rows.value);
    if (storage() == KeyValueStorage::kInt8 && MultipliesInt8() &&
        options_.similarity == Similarity::kDotProduct) {
      RoundRows(storage(), e.head_dim, options.scale.value_or(1) < 0 ? -1 : 1, rows.query);
    }
  }
  reference::AttentionResult result =
      reference::Attention(e, rows.query, rows.key, rows.value, options);
  if (weights.has_value()) {
    result.output = ProjectOutput(*weights, std::move(result.output));
  }
  return result;
}

/// Adds the residual of the layer's call, if it has one.
void FuzzProblem::AddResidual(std::vector<double>& output) const {
  for (int64_t i = 0; case_.residual != 0 && i < std::ssize(output); ++i) {
    output[i] += dense_residual_.as<float>()[i];
  }
}

/// Nothing is expected of a row that attends to what is not finite.
void FuzzProblem::ExpectNaN(int64_t head, int64_t row, reference::AttentionResult& result) const {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const int64_t index = head * extents_.query_len + row;
  std::fill_n(result.weights.begin() + index * extents_.kv_len, extents_.kv_len, nan);
  result.log_sum_exp[index] = nan;
  std::fill_n(result.output.begin() + (row * extents_.num_heads + head) * extents_.value_head_dim,
              extents_.value_head_dim, nan);
}

reference::AttentionResult FuzzProblem::Expected() const {
  const reference::Options options = OptionsOfReference();
  reference::AttentionResult result =
      Reference(NumExtraKeys(case_) > 0 ? WithExtraKeys(options) : options);
  AddResidual(result.output);
  const int64_t poisoned_heads = case_.poison_head != 0 ? case_.group : extents_.num_heads;
  for (int64_t h = 0; case_.poison > 0 && PoisonsKey() && h < poisoned_heads; ++h) {
    for (int64_t i = 0; i < extents_.query_len; ++i) {
      if (reference::AttendsTo(extents_, options, h, i, case_.poison - 1)) {
        ExpectNaN(h, i, result);
      }
    }
  }
  for (int64_t j = 0; case_.query_poison > 0 && j < extents_.kv_len; ++j) {
    if (reference::AttendsTo(extents_, options, 0, case_.query_poison - 1, j)) {
      ExpectNaN(0, case_.query_poison - 1, result);
    }
  }
  return result;
}

}  // namespace attention
