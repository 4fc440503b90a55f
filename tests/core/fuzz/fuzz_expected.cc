// What the reference answers to a random call.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>

#include "core/kernels/onednn/isa.h"
#include "tests/core/fuzz/fuzz_problem.h"
#include "tests/support/attention_problem.h"
#include "tests/support/golden.h"

namespace attention {
namespace {

/// Rounds rows as a cache stores them, in its own arithmetic; `sign` is that of the numbers that
/// are rounded.
void RoundRows(KeyValueStorage storage, int64_t width, float sign, std::vector<double>& rows) {
  for (int64_t row = 0; row < std::ssize(rows); row += width) {
    const std::span<double> numbers(rows.data() + row, width);
    float largest = 0;
    for (const double number : numbers) {
      largest = std::max(largest, std::abs(static_cast<float>(number)));
    }
    if (!std::ranges::all_of(numbers, [](double number) { return std::isfinite(number); })) {
      continue;
    }
    for (double& number : numbers) {
      const auto rounded = static_cast<float>(number);
      if (storage == KeyValueStorage::kBf16) {
        number = ToFloat(ToBf16(rounded));
      } else {
        const float to_integer = largest > 0x1p-100f ? 127.0f / largest : 0.0f;
        const auto integer = static_cast<int32_t>(sign * rounded * to_integer + 128.5f) - 128;
        number = sign * static_cast<double>(largest / 127.0f) * integer;
      }
    }
  }
}

}  // namespace

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

/// The reference's answer to keys, values and queries as they are rounded before the products.
reference::AttentionResult FuzzProblem::Reference(reference::Options options) const {
  const reference::Extents& e = extents_;
  std::vector<double> query = ToDoubles(dense_query_);
  std::vector<double> key = ToDoubles(dense_key_);
  std::vector<double> value = ToDoubles(dense_value_);
  if (storage() != KeyValueStorage::kF32) {
    query =
        reference::PreparedRows(query, e.num_heads, e.head_dim, options.query_norm, options.rotary,
                                options.query_offset.value_or(e.kv_len - e.query_len));
    key = reference::PreparedRows(key, e.num_kv_heads, e.head_dim, options.key_norm, options.rotary,
                                  0);
    options.query_norm = options.key_norm = std::nullopt;
    options.rotary = std::nullopt;
    RoundRows(storage(), e.head_dim, 1, key);
    RoundRows(storage(), e.value_head_dim, 1, value);
    if (storage() == KeyValueStorage::kInt8 && MultipliesInt8() &&
        options_.similarity == Similarity::kDotProduct) {
      RoundRows(storage(), e.head_dim, options.scale.value_or(1) < 0 ? -1 : 1, query);
    }
  }
  return reference::Attention(e, query, key, value, options);
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
  reference::AttentionResult result = Reference(options);
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
